"""Fails Clade's own allocations in warm runs of the perceptron, of a copy between two devices and of training steps,
and in a cold run (with an empty Clade cache; PoCL has compiled the kernels before).

    allocations.py [--every] [--nth N] FIRST_RESULT

One process per fault. By default one allocation per call site, once and, warm, permanently (training: once only);
--every: every allocation of the warm runs in both ways; --nth: each N-th of these. Each must result in an error status
with a message, or in the correct result with a logged warning.
"""
import argparse
import concurrent.futures

from common import Caches, Checks, finds_leaks, forked

options = argparse.ArgumentParser()
options.add_argument("--every", action="store_true")
options.add_argument("--nth", type=int, default=1)
options.add_argument("program")
options = options.parse_args()
every, program = options.every, options.program
check = Checks()
pool = concurrent.futures.ThreadPoolExecutor(2)


def verdict(caches, arguments, plan):
    try:
        result = forked(program, *arguments, "--fail-allocation", plan, env=caches.environment(CLADE_MEASURE="on" if every else "off"))
    except Exception as error:  # a timeout is a hang
        return f"{error}"
    if result.status not in (0, 3):
        return f"ended badly: {result}"
    if result.status == 3 and not result.json["error"]:
        return f"an error without a message: {result}"
    if result.status == 0 and result.json["allocation_failed"] and not result.json["warnings"]:
        return "a failed allocation without an error or a warning"
    return None


def sites(caches, arguments):
    path = caches.top / "sites"
    result = forked(program, *arguments, "--allocation-sites", str(path), env=caches.environment(CLADE_MEASURE="on" if every else "off"))
    return result, path.read_text().split()


def sweep(what, arguments, warm, for_good, known, compiled=None):
    """Starts with PoCL's cache of an earlier sweep, and returns the caches for the next."""
    caches = Caches(compiled=compiled)
    sites(caches, arguments)
    result, calls = sites(caches if warm else Caches(compiled=caches), arguments)
    check.that(result.status == 0, f"{what}: without a fault right: {result if result.status else 'yes'}")
    plans = []
    for number, site in enumerate(calls, 1):
        if (every and warm) or site not in known:
            known.add(site)
            ways = [f"{number}", f"{number}+"] if for_good else [f"{number}"]
            plans += ways if every else [ways[len(known) % len(ways)]]

    plans = plans[::options.nth]

    def judge(plan):
        return plan, verdict(Caches(warm=caches) if warm else Caches(compiled=caches), arguments, plan)

    bad = [(plan, wrong) for plan, wrong in pool.map(judge, plans) if wrong]
    for plan, wrong in bad:
        print(f"     {what}: allocation {plan}: {wrong}")
    check.that(not bad, f"{what}: {len(calls)} allocations, {len(plans)} faults, {len(bad)} of them badly met")
    return caches


if finds_leaks(program):
    print("leaks are looked for")
seen = set()
caches = sweep("warm perceptron", [], True, True, seen)
caches = sweep("warm copy between two devices", ["--two"], True, True, seen, caches)
caches = sweep("warm steps of training", ["--train"], True, every, seen, caches)
sweep("cold perceptron", [], False, False, seen, caches)
check.exit()

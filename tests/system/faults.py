"""Fails OpenCL calls of warm runs of the perceptron, of a copy between two devices and of training steps, and of a cold
run (with an empty Clade cache; PoCL has compiled the kernels before, which does not change the calls).

    faults.py [--every] [--nth N] FIRST_RESULT LAYER [warm] [two] [train] [cold]

One process per fault. By default one call per call site, once and permanently; --every: every call once, warm ones with
each of four errors, cold ones, including those that measure the device, with the first error; --nth: each N-th of
these. Each must result in an error status whose message names the call, or in the correct result with a logged warning;
never in a crash, a hang or a wrong result, and objects are released as often as they were created.
"""
import argparse
import concurrent.futures
import pathlib
import sys

from common import Caches, Checks, finds_leaks, forked

ERRORS = ["CL_OUT_OF_RESOURCES", "CL_OUT_OF_HOST_MEMORY", "CL_DEVICE_NOT_AVAILABLE",
          "CL_MEM_OBJECT_ALLOCATION_FAILURE"]
options = argparse.ArgumentParser()
options.add_argument("--every", action="store_true")
options.add_argument("--nth", type=int, default=1)
options.add_argument("program")
options.add_argument("layer")
options.add_argument("wanted", nargs="*")
options = options.parse_args()
every, program, layer, wanted = options.every, options.program, options.layer, options.wanted
check = Checks()
pool = concurrent.futures.ThreadPoolExecutor(2)


class Report:
    """The layer's report at the end of the process."""

    def __init__(self, path):
        self.calls, self.unbalanced, self.failed, self.names = [], [], 0, []
        for line in pathlib.Path(path).read_text().splitlines():
            word = line.split()
            if word[0] == "call":
                self.calls.append((word[2], word[3]))
            elif word[0] in ("live", "over") and word[2] != "0":
                self.unbalanced.append(line)
            elif word[0] == "left":
                self.unbalanced.append(line)
            elif word[0] == "failed":
                self.failed = int(word[1])
            elif word[0] == "fault":
                self.names.append(word[1])


def once(caches, arguments, fault=None, record=False):
    report = caches.top / "report"
    report.unlink(missing_ok=True)
    env = caches.environment(OPENCL_LAYERS=layer, CLADE_LAYER_REPORT=report, CLADE_MEASURE="on" if every else "off")
    if fault:
        env["CLADE_LAYER_FAIL"] = fault
    if record:
        env["CLADE_LAYER_RECORD"] = "1"
    result = forked(program, *arguments, env=env)
    return result, Report(report) if report.exists() else None


def verdict(caches, arguments, fault):
    """None, or a description of the problem."""
    try:
        result, report = once(caches, arguments, fault)
    except Exception as error:  # a timeout is a hang
        return f"{error}"
    if result.status not in (0, 3):
        return f"ended badly: {result}"
    if report is None:
        return f"the layer wrote no report: {result}"
    # With several threads, the n-th call varies: the report names it.
    if result.status == 3 and not any(name in result.json["error"] for name in report.names):
        return f"the message does not name the call: {result.json['error']}"
    if result.status == 0 and report.failed and not result.json["warnings"]:
        return "a failed call without an error or a warning"
    if report.unbalanced:
        return f"not released: {report.unbalanced}, after {result.json}"
    return None


def faults(calls, errors):
    """Faults in the layer's syntax: for each call site, or for each call."""
    for number, (name, site) in enumerate(calls, 1):
        if every:
            for error in errors:
                yield f"*:{number}:{error}"
        elif (name, site) not in calls[:number - 1]:
            yield f"{name}@{site}:1"
            yield f"{name}@{site}:1+"


def sweep(what, arguments, warm, known, compiled):
    """Starts with PoCL's cache of an earlier sweep, and returns the caches for the next."""
    caches = Caches(compiled=compiled)
    once(caches, arguments)
    result, report = once(caches if warm else Caches(compiled=caches), arguments, record=True)
    check.that(result.status == 0 and report and not report.unbalanced,
               f"{what}: without a fault right and balanced: {report.unbalanced if report else result}")
    calls = report.calls
    todo = [f for f in faults(calls, ERRORS if warm else ERRORS[:1]) if every or f not in known]
    known.update(todo)
    todo = todo[::options.nth]

    def judge(fault):
        own = Caches(warm=caches) if warm else Caches(compiled=caches)  # a fault may cause writes
        return fault, verdict(own, arguments, fault)

    bad = [(fault, wrong) for fault, wrong in pool.map(judge, todo) if wrong]
    for fault, wrong in bad:
        print(f"     {what}: {fault}: {wrong}")
    check.that(not bad, f"{what}: {len(calls)} calls, {len(todo)} faults, {len(bad)} of them badly met")
    return caches


if finds_leaks(program):
    print("leaks are looked for")
seen, caches = set(), None
for word, what, arguments, warm in (("warm", "warm perceptron", [], True),
                                    ("two", "warm copy between two devices", ["--two"], True),
                                    ("train", "warm steps of training", ["--train"], True),
                                    ("cold", "cold perceptron", [], False)):
    if not wanted or word in wanted:
        caches = sweep(what, arguments, warm, seen, caches)
check.exit()

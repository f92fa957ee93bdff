"""The first use of each op in a process: at most 2 s with empty caches and 50 ms with full ones. The best of three
tries counts, and only times above twice the limit, twice, fail, since machines differ and are shared. With empty
caches, two ops run in parallel; one that is too slow is repeated alone.

usage: first_use.py OP_TEST OPS_DEF [OP...]"""
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

COLD, WARM, TRIES, NOISE = 2.0, 0.05, 3, 2


def use(op_test, op, folder):
    environment = dict(os.environ, CLADE_CACHE_DIR=folder + "/clade", POCL_CACHE_DIR=folder + "/pocl")
    for name in ("clade", "pocl"):
        os.makedirs(f"{folder}/{name}", mode=0o700, exist_ok=True)
    done = subprocess.run([op_test, "--op", op, "--once"], env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{op}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(op_test, op, folder, first):
    """The time relative to the limit; `first`: the first use, which filled the folder's caches."""
    cold, warm = [first["seconds"]], []
    while len(cold) < TRIES and min(cold) > COLD:
        with tempfile.TemporaryDirectory() as empty:
            cold.append(use(op_test, op, empty)["seconds"])
    while not warm or (len(warm) < TRIES and min(warm) > WARM):
        warm.append(use(op_test, op, folder)["seconds"])
    print(f"| {op} | {first['compiled']} | {min(cold):.2f} s | {1e3 * min(warm):.0f} ms |", flush=True)
    return max(min(cold) / COLD, min(warm) / WARM)


def main():
    op_test = sys.argv[1]
    with open(sys.argv[2], encoding="utf-8") as f:
        ops = sys.argv[3:] or re.findall(r"^CLADE_OP\(\w+, *(\w+)\)", f.read(), re.MULTILINE)
    print("| op | kernels | empty caches | full caches |\n| --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as room:
        folders = {op: os.path.join(room, op) for op in ops}
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            first = dict(zip(ops, pool.map(lambda op: use(op_test, op, folders[op]), ops)))
        taken = {op: measure(op_test, op, folders[op], first[op]) for op in ops}
        late = [op for op, times in taken.items() if times > 1]
        slow = [op for op in late if taken[op] > NOISE and measure(op_test, op, folders[op], first[op]) > NOISE]
    if late:
        print(f"above {COLD} s or {1e3 * WARM:.0f} ms: {', '.join(late)}")
    if slow:
        print(f"above {NOISE} times that, twice: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


sys.exit(main())

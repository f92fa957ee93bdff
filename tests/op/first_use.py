"""The first use of each op by a process: with empty caches it has 2 s, with full ones 50 ms; the best of three.

usage: first_use.py OP_TEST OPS_DEF [OP...]"""
import json
import os
import re
import subprocess
import sys
import tempfile

COLD, WARM, TRIES = 2.0, 0.05, 3


def use(op_test, op, folder):
    environment = dict(os.environ, CLADE_CACHE_DIR=folder + "/clade", POCL_CACHE_DIR=folder + "/pocl")
    for name in ("clade", "pocl"):
        os.makedirs(f"{folder}/{name}", mode=0o700, exist_ok=True)
    done = subprocess.run([op_test, "--op", op, "--once"], env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise SystemExit(f"{op}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def measure(op_test, op):
    cold, warm, kernels = [], [], 0
    while not cold or (len(cold) < TRIES and min(cold) > COLD):
        with tempfile.TemporaryDirectory() as folder:
            first = use(op_test, op, folder)
            kernels = first["compiled"]
            cold.append(first["seconds"])
            while not warm or (len(warm) < TRIES and min(warm) > WARM):
                warm.append(use(op_test, op, folder)["seconds"])
    print(f"| {op} | {kernels} | {min(cold):.2f} s | {1e3 * min(warm):.0f} ms |", flush=True)
    return min(cold) <= COLD and min(warm) <= WARM


def main():
    with open(sys.argv[2]) as f:
        ops = re.findall(r"^CLADE_OP\(\w+, *(\w+)\)", f.read(), re.MULTILINE)
    print("| op | kernels | empty caches | full caches |\n| --- | --- | --- | --- |")
    slow = [op for op in sys.argv[3:] or ops if not measure(sys.argv[1], op)]
    if slow:
        print(f"slower than {COLD} s or {WARM} s: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


sys.exit(main())

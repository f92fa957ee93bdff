"""Eight cold processes with one empty cache, in many rounds: all correct, with the same bits, compiled once. In every
fifth round PoCL's cache is empty too; otherwise it holds the kernels, so that the processes meet in Clade's cache at
more points.

    together.py FIRST_RESULT [ROUNDS]
"""
import sys

from common import Caches, Checks, finish, start

program, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
check = Checks()
bits = set()
compiled = None
for number in range(rounds):
    caches = Caches(compiled=compiled if number % 5 else None)
    processes = [start(program, env=caches.environment()) for _ in range(8)]
    results = [finish(p) for p in processes]
    compiled = compiled or caches
    bits.update(r.json.get("bits") for r in results)
    bad = [r for r in results if r.status != 0]
    check.that(not bad, f"round {number}: eight processes are right{': ' + str(bad[0]) if bad else ''}")
    programs = [name for name in caches.files() if name.endswith(".bin")]
    check.that(len(programs) == 1, f"round {number}: compiled once: {programs}")
check.that(len(bits) == 1, f"the same bits: {bits}")
check.exit()

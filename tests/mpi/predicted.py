"""A step of two ranks on this machine, each bound to a processor, against predictions: of `clade bench comm`, which
measures the parts of a step on both ranks, and of `clade bench scale`, from one process on one processor. Needs an idle
machine.
    predicted.py CLADE MPIRUN
"""
import json
import os
import statistics
import subprocess
import sys
import unittest

from ranks import CLADE, ENV, MPIRUN

STEP = ["--model", "resnet18", "--batch", "32", "--side", "32", "--rounds", "7", "--json"]
BOUND = ["-np", "2", "--bind-to", "core", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"]
TOLERANCE, TIMES = 0.15, 3


def document(*command):
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done
    return json.loads(done.stdout[done.stdout.index("{"):])


class Long(unittest.TestCase):
    def test_a_step_of_resnet18(self):
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("it takes two processors")
        together, apart = [], []
        for _ in range(TIMES):
            both = document(MPIRUN, *BOUND, CLADE, "bench", "comm", *STEP)
            step, link = both["step"], both["link"]
            given = f"{link['latency_seconds'] * 1e6},{link['bandwidth_gbs'] * 8}"
            one = document("taskset", "-c", str(min(os.sched_getaffinity(0))), CLADE, "bench", "scale", "--ranks", "2", "--link", given,
                           *STEP)
            together.append(step["predicted_seconds"] / step["seconds"])
            apart.append(one["rows"][0]["seconds"] / step["seconds"])
            print(f"measured {step['seconds'] * 1e3:.0f} ms; predicted by bench comm {step['predicted_seconds'] * 1e3:.0f} ms, by bench "
                  f"scale {one['rows'][0]['seconds'] * 1e3:.0f} ms (alone {both['model']['alone_seconds'] * 1e3:.0f} and "
                  f"{one['model']['alone_seconds'] * 1e3:.0f} ms); others used {one['machine']['busy']:.0%}", flush=True)
        for name, ratios in ("bench comm", together), ("bench scale", apart):
            self.assertLess(abs(statistics.median(ratios) - 1), TOLERANCE, f"{name}: {ratios}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "Long"], verbosity=2)

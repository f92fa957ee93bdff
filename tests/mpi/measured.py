"""Layouts of two ranks on this machine, each bound to a processor: the idle share of a pipeline by its traces, beside the formula, and
what `clade plan` proposes beside all that two ranks can do. On a machine that does nothing else.
    measured.py CLADE MPIRUN
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import unittest

from ddp import MPI, WARM, clade as step_seconds
from noise import noise
from ranks import CLADE, ENV, MPIRUN

SIDE, TEST, TRACED = 32, 32, (3, 8)
TOLERANCE = {"idle": 0.10, "plan": 0.15, "seconds": 0.35}
PROCESSORS = sorted(os.sched_getaffinity(0))[:2]


def images(room, steps, batch):
    noise(room, steps * batch, TEST)
    return ["--data", "npy:" + room, "--batch", str(batch), "--optimizer", "sgd", "--epochs", "1"]


def by_two(*options):
    """The mean of a step's seconds: reports of steps may come two at a time."""
    command = [MPIRUN, "-np", "2", *MPI, CLADE, "train", "--json", *options]
    return statistics.mean(step_seconds(command, 1, PROCESSORS)[0])


# ---- idle shares ----
def union(spans):
    """The length of what the spans cover together."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


def busy_and_whole(path):
    """Microseconds in which a rank computed, and all, from the beginning of the second traced step to that of the last."""
    with open(path, encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e["ph"] == "X" and e["tid"] < 1000 and e["args"]["step"] >= 0]
    begun = {}
    for e in events:
        step = e["args"]["execution"]
        begun[step] = min(begun.get(step, e["ts"]), e["ts"])
    steps = sorted(begun)
    first, last = begun[steps[1]], begun[steps[-1]]
    inside = [(max(e["ts"], first), min(e["ts"] + e["dur"], last)) for e in events if e["ts"] + e["dur"] > first and e["ts"] < last]
    return union(inside), last - first


def idle_share(model, batch, micro_batches):
    """Measured, and by the formula for stages that take as long as these do."""
    with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
        trace = os.path.join(room, "trace.json")
        by_two("--model", model, *images(room, TRACED[1] + 2, batch), "--parallel", "pipeline=2", "--micro-batches",
               str(micro_batches), "--trace", trace, "--trace-steps", f"{TRACED[0]}:{TRACED[1]}")
        ranks = [busy_and_whole(trace), busy_and_whole(trace.replace(".json", ".rank1.json"))]
    busy = [own for own, _ in ranks]
    measured = 1 - sum(busy) / sum(whole for _, whole in ranks)
    formula, imbalance = 1 / (micro_batches + 1), 1 - statistics.mean(busy) / max(busy)
    print(f"{model}, {micro_batches} micro-batches: idle {measured:.3f}; by the formula {formula:.3f}, imbalance of stages "
          f"{imbalance:.3f}", flush=True)
    return measured, formula + imbalance


# ---- plans ----
def layouts(model, batch, *more):
    """Of each way to lay two ranks out, the fastest by the plan, the proposal first."""
    done = subprocess.run(["taskset", "-c", str(PROCESSORS[0]), CLADE, "plan", "--model", model, "--ranks", "2", "--batch", str(batch),
                           "--optimizer", "sgd", "--list", "1000", "--measure", "--json", *more], env=ENV, capture_output=True, text=True,
                          timeout=600, check=True)
    told, found = json.loads(done.stdout[done.stdout.index("{"):]), {}
    by = ["--link", f"{told['link']['latency_seconds'] * 1e6},{told['link']['bandwidth_gbs'] * 8}", "--flops",
          str(told["device"]["flops"] * 1e-12)]
    for one in told["layouts"]:
        if one["shard"] == "none":
            one["options"] = by if one["tensor"] > 1 else []
            found.setdefault((one["data"], one["tensor"], one["pipeline"]), one)
    return list(found.values())


def measured(room, model, batch, one):
    name = f"data={one['data']},tensor={one['tensor']},pipeline={one['pipeline']}"
    seconds = by_two("--model", model, *images(room, WARM + 12, batch), "--parallel", name, "--micro-batches",
                     str(one["micro_batches"]), "--interleave", str(one["interleave"]), *one["options"])
    print(f"{model}, {name}, {one['micro_batches']} micro-batches: {seconds * 1e3:.0f} ms; planned {one['seconds'] * 1e3:.0f} ms",
          flush=True)
    return seconds, one["seconds"] / seconds


@unittest.skipIf(len(PROCESSORS) < 2, "it takes two processors")
class Long(unittest.TestCase):
    def test_idle(self):
        for micro_batches in 2, 4, 8:
            idle, expected = idle_share("resnet18", 64, micro_batches)
            self.assertLess(idle, (1 + TOLERANCE["idle"]) * expected)

    def test_plan(self):
        """No other layout is much faster than the one that is proposed, and each takes about as long as planned."""
        for model, batch in ("resnet18", 64), ("vgg16", 32), ("mobilenetv2", 32):
            with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
                found = [measured(room, model, batch, one) for one in layouts(model, batch, "--side", str(SIDE))]
            seconds, planned = zip(*found)
            self.assertLess(seconds[0], (1 + TOLERANCE["plan"]) * min(seconds), model)
            for ratio in planned:
                self.assertLess(abs(ratio - 1), TOLERANCE["seconds"], f"{model}: planned by measured {planned}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "Long"], verbosity=2)

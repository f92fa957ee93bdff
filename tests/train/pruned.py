"""Prunes half of the channels of models trained on Fashion-MNIST: cost in accuracy, and gain in time.

    pruned.py CLADE MODEL... [--epochs N] [--finetune N] [--data SET]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from common import CLADE, result, train

parser = argparse.ArgumentParser()
parser.add_argument("models", nargs="+")
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--finetune", type=int, default=3)
parser.add_argument("--data", default="fashion-mnist")
options = parser.parse_args(sys.argv[2:])


def prune(*arguments):
    done = subprocess.run([CLADE, "prune", "--json", *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def check(model, room):
    """Accuracy within a point; at batch 8, a speedup of at least 1.8 and 0.6 of the FLOP ratio. Batch 1 is only
    reported."""
    run = os.path.join(room, model)
    result(train(run, "--model", model, "--data", options.data, "--epochs", options.epochs, "--lr", 0.001, "--schedule",
                 "one-cycle", timeout=20000))
    half = ["--sparsity", 0.5, "--structure", "channels"]
    told = prune(run, *half, "--finetune", options.finetune, "--output", run + "-half")
    one = prune(run, *half, "--batch", 1, "--output", run + "-one")
    points = 100 * (told["test_accuracy"] - told["test_accuracy_before"])
    flops = told["flops_before"] / told["flops"]
    faster = {t["batch"]: t["seconds_per_batch_before"] / t["seconds_per_batch"] for t in (told, one)}
    print(f"{model}: test accuracy {100 * told['test_accuracy_before']:.2f} %, {points:+.2f} points; bytes "
          f"{told['bytes'] / told['bytes_before']:.2f}, FLOPs 1/{flops:.2f}, {faster[8]:.2f} times as fast at batch 8, "
          f"{faster[1]:.2f} at batch 1, on {told['device_name']}", flush=True)
    return points >= -1 and faster[8] >= 0.6 * flops and faster[8] >= 1.8


with tempfile.TemporaryDirectory(prefix="clade-test-") as folder:
    good = [check(name, folder) for name in options.models]
sys.exit(0 if all(good) else 1)

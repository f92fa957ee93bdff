"""8-bit weights and inputs in models trained on Fashion-MNIST: cost in accuracy and size, by quantization after
training and with an epoch of quantization-aware training.

    quantized.py CLADE MODEL... [--epochs N] [--samples N] [--data SET]
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
parser.add_argument("--samples", type=int, default=256)
parser.add_argument("--data", default="fashion-mnist")
options = parser.parse_args(sys.argv[2:])


def check(model, room):
    """Accuracy within half a point, in 0.27 of the bytes. Times are only reported, since other processes affect them.
    """
    run = os.path.join(room, model)
    result(train(run, "--model", model, "--data", options.data, "--epochs", options.epochs, "--lr", 0.001, "--schedule",
                 "one-cycle", timeout=20000))
    good = True
    for how in "minmax", "percentile", "mse":
        done = subprocess.run([CLADE, "quantize", "--json", run, "--calibrate", how, "--samples", str(options.samples),
                               "--output", f"{run}-{how}"], stdout=subprocess.PIPE, text=True, check=True)
        told = json.loads(done.stdout)
        points, bytes_left = 100 * (told["test_accuracy"] - told["test_accuracy_before"]), told["bytes"] / told["bytes_before"]
        print(f"{model}, {how}: test accuracy {100 * told['test_accuracy_before']:.2f} %, {points:+.2f} points; bytes "
              f"{bytes_left:.3f}, {told['seconds_per_batch_before'] / told['seconds_per_batch']:.2f} times as fast at batch "
              f"{told['batch']}, on {told['device_name']}", flush=True)
        good = good and abs(points) <= 0.5 and bytes_left <= 0.27
    return trained(model, run, told["test_accuracy_before"]) and good


def trained(model, run, before):
    """The run of clade train --qat: within 0.3 points of f32."""
    result(train(run, "--qat", "--epochs", 1, "--lr", 1e-4, "--schedule", "cosine", "--checkpoint-dir", f"{run}-qat",
                 timeout=20000))
    done = subprocess.run([CLADE, "quantize", "--json", f"{run}-qat", "--output", f"{run}-trained"], stdout=subprocess.PIPE,
                          text=True, check=True)
    points = 100 * (json.loads(done.stdout)["test_accuracy"] - before)
    print(f"{model}, trained for it: {points:+.2f} points", flush=True)
    return points >= -0.3


with tempfile.TemporaryDirectory(prefix="clade-test-") as folder:
    passed = [check(name, folder) for name in options.models]
sys.exit(0 if all(passed) else 1)

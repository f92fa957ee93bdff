"""One training on devices of two platforms: as accurate as on one of them."""
import sys
import tempfile

from common import result, train
from images import images

with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
    options = ["--model", "mlp", "--data", images(room), "--batch", 32, "--epochs", 3]
    alone = result(train(*options, "--device", "pocl"))
    both = result(train(*options, "--device", "pocl", "--device", "rusticl", "--split", "3:1"))
    twice = result(train(*options, "--device", "pocl", "--device", "rusticl", "--split", "3:1"))
print(f"accuracy {alone['test_accuracy']} on PoCL, {both['test_accuracy']} on PoCL and rusticl")
assert both["weights_sha256"] == twice["weights_sha256"], "the same command gave other weights"
sys.exit(0 if both["test_accuracy"] >= 0.95 and abs(both["test_accuracy"] - alone["test_accuracy"]) <= 0.02 else 1)

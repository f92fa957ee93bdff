"""Accuracy in other precisions relative to f32: LeNet-5 on the generated digits, averaged over seeds.
    precision.py CLADE [all]
"""
import os
import struct
import subprocess
import tempfile
import unittest

import common
from images import images

SEEDS, EPOCHS = (1, 2, 3), 3


def accuracy(precision):
    """The mean over seeds, and the number of skipped steps."""
    done = [common.result(common.train("--epochs", EPOCHS, "--seed", seed, "--precision", precision)) for seed in SEEDS]
    assert all(one["precision"] == precision for one in done), done
    return sum(one["test_accuracy"] for one in done) / len(done), sum(one["skipped"] for one in done)


class Images(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)
        self.common = ("--data", images(self.room.name), "--model", "mlp")


    def answers(self, run, precision):
        """Predicted probabilities of the test images."""
        path = os.path.join(self.room.name, "y.npy")
        subprocess.run([common.CLADE, "infer", run, "--input", os.path.join(self.room.name, "x_test.npy"), "--output", path,
                        "--precision", precision], capture_output=True, timeout=300, check=True)
        with open(path, "rb") as file:
            data = file.read()
        begin = 10 + int.from_bytes(data[8:10], "little")
        return struct.unpack(f"<{(len(data) - begin) // 4}f", data[begin:])


class All(Images):
    def test_accuracy(self):
        wide, _ = accuracy("f32")
        for precision in "bf16", "f16":
            narrow, skipped = accuracy(precision)
            print(f"LeNet-5, digits, {EPOCHS} epochs, {len(SEEDS)} seeds: f32 {100 * wide:.2f} %, "
                  f"{precision} {100 * narrow:.2f} %, {skipped} steps skipped")
            self.assertLessEqual(abs(narrow - wide), 0.003)
            self.assertEqual(precision == "bf16" and skipped, 0)

    def test_run(self):
        run = os.path.join(self.room.name, "run")
        log = os.path.join(self.room.name, "log")
        done = common.train(run, *self.common, "--epochs", 1, "--precision", "f16", "--types", "fc3=f32", "--log-dir", log)
        first, last = common.events(done)[0], common.result(done)
        self.assertEqual((first["precision"], first["precision_measured"]), ("f16", False))
        self.assertEqual((last["precision"], last["skipped"], last["loss_scale"]), ("f16", 0, 65536))
        with open(os.path.join(log, next(f for f in os.listdir(log) if f.endswith(".csv")))) as file:
            text = file.read()
        self.assertIn("train/loss_scale,65536", text)
        self.assertIn("train/skipped_steps,0", text)
        wide, narrow = (self.answers(run, precision) for precision in ("f32", "bf16"))
        largest = max(abs(a - b) for a, b in zip(wide, narrow))
        self.assertTrue(0 < largest < 0.03, largest)
        again = common.events(common.train(run, "--resume", "--epochs", 2))[0]  # with the run's stored options
        self.assertEqual((again["precision"], again["changed"]), ("f16", "epochs 2 (the checkpoint had 1)"))
        other = common.train(run, "--resume", "--epochs", 3, "--precision", "bf16")
        self.assertIn('precision "bf16, fc3=f32" (the checkpoint had "f16, fc3=f32")', common.events(other)[0]["changed"])


class Command(Images):
    def test_usage(self):
        for arguments, word in [(("--precision", "i8"), "--precision i8: expected f32, bf16, f16 or auto"),
                                (("--types", "fc3=f32"), "--types needs --precision")]:
            done = common.train(*self.common, *arguments)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(word, done.stderr)
        done = common.train(*self.common, "--precision", "bf16", "--types", "fc9=f32")
        self.assertEqual(done.returncode, 1)
        self.assertIn('types: "fc9": the graph has no node and no layer of that name', done.stderr)


if __name__ == "__main__":
    common.main()

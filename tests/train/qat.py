"""clade train --qat: trains to the bits of the quantized run, resumes to the same bits; and refusals."""
import json
import os
import pathlib
import shutil
import struct
import tempfile
import unittest

from common import events, main, result, train
from images import images
from smaller import command, digest, report, tensors


def floats(data):
    return [x for x, in struct.iter_unpack("<f", data)]


class Kit(unittest.TestCase):
    MODEL, DATA, EPOCHS = "mlp", None, 1

    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(prefix="clade-test-")
        cls.data = cls.DATA or images(cls.room.name)
        cls.run_dir = os.path.join(cls.room.name, "run")
        cls.accuracy = result(train(cls.run_dir, "--model", cls.MODEL, "--data", cls.data, "--batch", 32, "--epochs",
                                    cls.EPOCHS, "--log-dir", os.path.join(cls.room.name, "logs")))["test_accuracy"]
        cls.before = digest(cls.run_dir)

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def tearDown(self):
        self.assertEqual(digest(self.run_dir), self.before, "the run that it went on from is as it was")

    def path(self, name):
        return os.path.join(self.room.name, name)

    def qat(self, name, *arguments, run=None):
        return train(run or self.run_dir, "--qat", "--checkpoint-dir", self.path(name), *arguments)

    def refused(self, done, *words, status=1):
        self.assertEqual(done.returncode, status, done)
        for word in words:
            self.assertIn(word, done.stderr)

    def answers(self, run, x):
        out = self.path("y.npy")
        done = command("infer", run, "--input", x, "--output", out)
        self.assertEqual(done.returncode, 0, done)
        return pathlib.Path(out).read_bytes()

    def same_as_quantized(self, name, x=None):
        """For a run of --qat; returns its quantization report."""
        small = self.path(name + "-small")
        told = report(command("quantize", "--json", self.path(name), "--output", small))
        self.assertEqual((told["calibrate"], told["samples"]), ("trained", 0))
        if x:
            self.assertEqual(self.answers(self.path(name), x), self.answers(small, x), "to the bit")
        found, metadata = tensors(f"{small}/best.safetensors")
        text = json.loads(metadata["clade.text"])
        self.assertNotIn("qat", text)
        self.assertEqual(text["quantization"]["calibrate"], "trained")
        for layer in told["layers"]:
            self.assertEqual(found[layer["name"] + ".weight"][0], "I8")
        self.assertFalse([tensor for tensor in found if tensor.startswith("optimizer.")])
        return told


class Small(Kit):
    def ranges(self, file):
        return {name: floats(data)[0] for name, (_, _, data) in tensors(file)[0].items() if "optimizer.range.max" in name}

    def test_trained(self):
        done = self.qat("qat", "--epochs", 2)
        last = result(done)
        self.assertTrue(events(done)[0]["qat"])
        self.assertEqual(last["epochs"], 2)
        best = max(event["test_accuracy"] for event in events(done) if event["event"] == "epoch")
        told = self.same_as_quantized("qat", self.path("x_test.npy"))
        self.assertEqual(told["test_accuracy"], best)
        self.assertGreater(best, 0.9)
        self.assertEqual([layer["input_type"] for layer in told["layers"]], ["u8"] * 3)
        options = json.loads(pathlib.Path(self.path("qat"), "run.json").read_text())["options"]
        self.assertEqual((options["qat"], options["batch"], options["model"]), (True, "32", "mlp"))
        self.assertNotIn("log-dir", options)
        again = report(command("quantize", "--json", self.path("qat"), "--calibrate", "mse", "--output", self.path("again")))
        self.assertEqual((again["calibrate"], again["samples"]), ("mse", 256))
        self.refused(self.qat("more", run=self.path("qat")), "trained for 8 bits already")

    def test_resumed(self):
        """From the middle of an epoch, and from the end of a shorter training."""
        whole = result(self.qat("whole", "--epochs", 2, "--checkpoint-steps", 7, "--keep", 9))
        self.assertEqual(whole["steps"], 20)
        part = self.path("part")
        shutil.copytree(self.path("whole"), part)
        for file in pathlib.Path(part).glob("step-*"):
            if int(file.stem[5:]) > 7:
                file.unlink()
        resumed = result(train(part, "--resume"))
        self.assertEqual((resumed["new_steps"], resumed["weights_sha256"]), (13, whole["weights_sha256"]))
        result(self.qat("short", "--epochs", 1))
        longer = result(train(self.path("short"), "--resume", "--epochs", 2))
        self.assertEqual(longer["weights_sha256"], whole["weights_sha256"])
        name = "step-0000000020.safetensors"
        for run in part, self.path("short"):
            self.assertEqual(tensors(f"{run}/{name}")[0], tensors(f"{self.path('whole')}/{name}")[0])

    def test_ranges(self):
        names = [f"step-{step:010}.safetensors" for step in (10, 20, 30)]
        result(self.qat("moving", "--epochs", 3))
        result(self.qat("frozen", "--epochs", 3, "--freeze-ranges", 2))
        moving, frozen = ([self.ranges(os.path.join(self.path(run), name)) for name in names] for run in ("moving", "frozen"))
        self.assertEqual(len(frozen[0]), 3)
        self.assertEqual(moving[0], frozen[0])
        self.assertEqual(frozen[0], frozen[1])
        self.assertEqual(frozen[0], frozen[2])
        for name in moving[0]:
            if "fc1" not in name:  # the range of the images is the same in all batches
                self.assertNotEqual(moving[1][name], moving[0][name])
        self.same_as_quantized("frozen", self.path("x_test.npy"))

    def test_refusals(self):
        for words, done in (
                (["--qat needs RUN"], train("--qat", "--checkpoint-dir", self.path("none"))),
                (["--qat needs --checkpoint-dir", "is not touched"], train(self.run_dir, "--qat")),
                (["is RUN itself"], train(self.run_dir, "--qat", "--checkpoint-dir", f"{self.run_dir}/.", "--overwrite")),
                (["unexpected argument 'x'"], self.qat("none", "x")),
                (["--precision bf16: --qat trains in f32"], self.qat("none", "--precision", "bf16")),
                (["--precision auto: --qat trains in f32"], self.qat("none", "--precision", "auto")),
                (["--freeze-ranges 0:"], self.qat("none", "--freeze-ranges", 0)),
                (["--freeze-ranges needs --qat"], train("--freeze-ranges", 2)),
                (["one device, and 2"], self.qat("none", "--device", "cpu", "--device", "cpu"))):
            self.refused(done, *words, status=2)
        self.refused(self.qat("none", run=self.path("nowhere")), "nowhere", "run.json")
        self.refused(self.qat("none", "--model", "lenet5"), "it holds the model mlp, and --model is lenet5")
        self.refused(self.qat("none", "--augment", "normalize"), "trained without normalize")
        other = self.path("other")
        os.makedirs(other)
        images(other, side=6)
        self.refused(self.qat("none", "--data", f"npy:{other}"), "[1, 6, 6]", "was trained on [1,8,8]")
        small = self.path("once")
        report(command("quantize", "--json", self.run_dir, "--output", small))
        shutil.copy(f"{self.run_dir}/run.json", small)
        self.refused(self.qat("none", run=small), "quantized already")
        empty = self.path("empty")
        os.makedirs(empty)
        shutil.copy(f"{self.run_dir}/run.json", empty)
        self.refused(self.qat("none", run=empty), "there is no checkpoint in", "empty")
        self.assertFalse(os.path.exists(self.path("none")))
        self.refused(train(empty, "--resume", "--qat"), "holds no checkpoint yet")
        copy = self.path("copy")
        shutil.copytree(self.run_dir, copy)
        self.refused(train(copy, "--resume", "--qat"), "it is not trained for 8 bits")
        result(self.qat("there", "--epochs", 1))
        self.refused(self.qat("there", "--epochs", 1), "holds checkpoints")
        self.refused(train(self.path("there"), "--resume", "--precision", "bf16"), "--qat trains in f32", status=2)
        result(self.qat("there", "--epochs", 1, "--overwrite"))


class AllPruned(Kit):
    def test_zeros_stay(self):
        sparse = self.path("sparse")
        report(command("prune", "--json", self.run_dir, "--structure", "weights", "--sparsity", 0.5, "--output", sparse))
        result(self.qat("sparse-qat", "--epochs", 1, run=sparse))
        told = self.same_as_quantized("sparse-qat", self.path("x_test.npy"))
        found, _ = tensors(f"{self.path('sparse-qat-small')}/best.safetensors")
        for layer in told["layers"]:
            data = found[layer["name"] + ".weight"][2]
            self.assertGreaterEqual(data.count(0), len(data) // 2 - 1)


class AllDigits(Kit):
    MODEL, DATA, EPOCHS = "lenet5", "digits", 2

    def test_accuracy(self):
        result(self.qat("digits", "--epochs", 1, "--lr", 1e-4))
        told = self.same_as_quantized("digits")
        self.assertLessEqual(self.accuracy - told["test_accuracy"], 0.003)
        self.assertLess(told["bytes"], 0.27 * told["bytes_before"])


class All(Kit):
    """With batch normalization, groups and residuals."""
    MODEL = "mobilenetv2"

    def test_bits(self):
        done = self.qat("mobile", "--epochs", 1)
        accuracy = result(done)["test_accuracy"]
        told = self.same_as_quantized("mobile", self.path("x_test.npy"))
        self.assertEqual(told["test_accuracy"], accuracy)
        self.assertEqual(len(told["layers"]), 53)


if __name__ == "__main__":
    main()

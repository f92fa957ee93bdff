"""clade quantize: the new run has 8-bit weights and nearly the same accuracy; and refusals."""
import json
import os
import pathlib
import shutil
import struct
import tempfile
import unittest

from common import main, result, train
from images import images, npy
from smaller import command, digest, report, tensors


def quantize(*arguments):
    return command("quantize", "--json", *arguments)


class Kit(unittest.TestCase):
    MODEL, DATA, EPOCHS = "mlp", None, 1

    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(prefix="clade-test-")
        cls.data = cls.DATA or images(cls.room.name)
        cls.run_dir = os.path.join(cls.room.name, "run")
        result(train(cls.run_dir, "--model", cls.MODEL, "--data", cls.data, "--batch", 32, "--epochs", cls.EPOCHS))
        cls.before = digest(cls.run_dir)

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def tearDown(self):
        self.assertEqual(digest(self.run_dir), self.before, "the run that was quantized is as it was")

    def path(self, name):
        return os.path.join(self.room.name, name)

    def refused(self, done, *words, status=1):
        self.assertEqual(done.returncode, status, done)
        for word in words:
            self.assertIn(word, done.stderr)


class Small(Kit):
    def test_each_calibration(self):
        scales = set()
        for how in "minmax", "percentile", "mse":
            out = self.path(how)
            told = report(quantize(self.run_dir, "--data", self.data, "--calibrate", how, "--samples", 100, "--output", out))
            self.assertEqual((told["calibrate"], told["samples"], told["scheme"]), (how, 100, "int8"))
            self.assertEqual([(layer["name"], layer["type"], layer["input_type"]) for layer in told["layers"]],
                             [(f"fc{i}", "int8", "u8") for i in (1, 2, 3)])
            self.assertGreater(told["test_accuracy_before"], 0.9)
            self.assertGreater(told["test_accuracy"], told["test_accuracy_before"] - 0.03)
            self.assertLess(told["bytes"], 0.27 * told["bytes_before"])
            self.assertEqual((told["checked_on"], told["checked"]), ("held-out", 320 - 104))
            scales.add(told["layers"][2]["input_scale"])
            found, _ = tensors(f"{out}/best.safetensors")
            for i in 1, 2, 3:
                self.assertEqual(found[f"fc{i}.weight"][0], "I8")
                self.assertNotIn(b"\x80", found[f"fc{i}.weight"][2], "weights are symmetric: -127 to 127")
                self.assertEqual(found[f"fc{i}.scale"][:2], ("F32", found[f"fc{i}.weight"][1][:1]))
            self.assertEqual(set(found), {f"fc{i}.{part}" for i in (1, 2, 3) for part in ("weight", "scale", "bias")})
        self.assertEqual(len(scales), 3)

    def test_infer(self):
        out = self.path("infer")
        told = report(quantize(self.run_dir, "--output", out))
        self.assertEqual(told["data"], self.data)  # the run's data
        answers = []
        for run in self.run_dir, out:
            done = command("infer", "--json", run, "--input", self.path("x_test.npy"))
            self.assertEqual(done.returncode, 0, done)
            answers.append(json.loads(done.stdout)["answers"])
        same = sum(a == b for a, b in zip(*answers))
        self.assertGreaterEqual(same, 97)
        right = sum(a == i % 4 for i, a in enumerate(answers[1]))
        self.assertEqual(right, round(told["test_accuracy"] * 100))
        text = command("quantize", self.run_dir, "--output", self.path("text"))
        self.assertIn("int8   u8", text.stdout)
        self.assertIn("test accuracy", text.stdout)
        again = tensors(f"{self.path('text')}/best.safetensors")[0]
        self.assertEqual(again, tensors(f"{out}/best.safetensors")[0], "the choice of samples is seeded")

    def test_weights_of_four_bits(self):
        out, four = self.path("four"), ["--scheme", "int4-weights"]
        told = report(quantize(self.run_dir, *four, "--output", out))
        self.assertEqual((told["scheme"], told["calibrate"], told["samples"]), ("int4-weights", "none", 0))
        self.assertEqual([(layer["name"], layer["type"], layer["input_type"]) for layer in told["layers"]],
                         [(f"fc{i}", "q4_0", "f32") for i in (1, 2, 3)])
        self.assertGreater(told["test_accuracy"], told["test_accuracy_before"] - 0.05)
        self.assertLess(told["bytes"], 0.17 * told["bytes_before"])
        self.assertEqual((told["checked_on"], told["checked"]), ("held-out", 320))
        found, metadata = tensors(f"{out}/best.safetensors")
        before, _ = tensors(f"{self.run_dir}/best.safetensors")
        for i in 1, 2, 3:
            rows, columns = before[f"fc{i}.weight"][1]
            self.assertEqual(found[f"fc{i}.weight"][:2], ("U8", [rows * columns // 32 * 18]))
            self.assertEqual(metadata[f"clade.blocks:fc{i}.weight"], f"Q4_0 {rows} {columns}")
            self.assertEqual(found[f"fc{i}.bias"], before[f"fc{i}.bias"])
        done = command("infer", "--json", out, "--input", self.path("x_test.npy"))
        self.assertEqual(done.returncode, 0, done)
        right = sum(a == i % 4 for i, a in enumerate(json.loads(done.stdout)["answers"]))
        self.assertEqual(right, round(told["test_accuracy"] * 100))
        text = command("quantize", self.run_dir, *four, "--output", self.path("four-text"))
        self.assertIn("q4_0   f32", text.stdout)
        none = report(quantize(self.run_dir, *four, "--budget", 0, "--output", self.path("four-budget")))
        self.assertLessEqual(none["checked_loss"], 0)
        some = ["--output", self.path("four-none")]
        self.refused(quantize(self.run_dir, *four, "--samples", 8, *some), "--samples", "int4-weights", status=2)
        self.refused(quantize(self.run_dir, *four, "--calibrate", "mse", *some), "--calibrate", status=2)
        self.refused(quantize(out, *four, *some), "quantized already")

    def test_budget(self):
        """Dark samples underestimate the range: brighter values saturate, which costs accuracy."""
        room = self.path("dark")
        os.makedirs(room)
        for part in "train", "test":
            shutil.copy(self.path(f"x_{part}.npy"), room)
            shutil.copy(self.path(f"y_{part}.npy"), room)
        x = bytearray(pathlib.Path(room, "x_train.npy").read_bytes())
        for i in range(len(x) - 160 * 64, len(x)):  # the second half of the samples
            x[i] //= 8
        pathlib.Path(room, "x_train.npy").write_bytes(bytes(x))
        one = [self.run_dir, "--data", f"npy:{room}", "--samples", 1, "--batch", 1]
        for seed in range(20):
            told = report(quantize(*one, "--seed", seed, "--output", self.path(f"all{seed}")))
            if told["checked_loss"] > 5:
                break
        self.assertGreater(told["checked_loss"], 5, "of 20 samples all are bright")
        self.assertTrue(all(layer["type"] == "int8" for layer in told["layers"]))
        self.assertEqual(told["budget"], None)
        some = report(quantize(*one, "--seed", seed, "--budget", 2, "--output", self.path("some")))
        kept = [layer["name"] for layer in some["layers"] if layer["type"] == "f32"]
        self.assertIn("fc1", kept)
        self.assertLessEqual(some["checked_loss"], 2)
        self.assertGreater(some["test_accuracy"], told["test_accuracy"])
        found, metadata = tensors(f"{self.path('some')}/best.safetensors")
        for layer in some["layers"]:
            self.assertEqual(found[layer["name"] + ".weight"][0], "F32" if layer["name"] in kept else "I8")
        told = json.loads(metadata["clade.text"])["quantization"]
        self.assertEqual({word.split("=")[0] for word in told["layers"].split(",") if word},
                         {"fc1", "fc2", "fc3"} - set(kept))
        self.assertEqual(command("infer", self.path("some"), "--input", self.path("x_test.npy")).returncode, 0)

    def test_refusals(self):
        empty, out = self.path("empty"), self.path("none")
        os.makedirs(empty, exist_ok=True)
        some = ["--output", out]
        for words, arguments in (
                (["--output is missing"], [self.run_dir]), (["which RUN"], some),
                (["unexpected argument 'x'"], [self.run_dir, "x", *some]),
                (["--scheme int3:", "int8 or int4-weights"], [self.run_dir, *some, "--scheme", "int3"]),
                (["--calibrate all:", "minmax, percentile or mse"], [self.run_dir, *some, "--calibrate", "all"]),
                (["--samples 0:"], [self.run_dir, *some, "--samples", 0]),
                (["--budget -1:"], [self.run_dir, *some, "--budget=-1"]),
                (["--budget nan:"], [self.run_dir, *some, "--budget", "nan"])):
            self.refused(quantize(*arguments), *words, status=2)
        self.refused(quantize(empty, *some), "there is no checkpoint in", "empty")
        self.refused(quantize(self.path("nowhere"), *some), "nowhere")
        self.refused(quantize(self.run_dir, "--output", self.run_dir), "something is there already")
        self.refused(quantize(self.run_dir, "--output", f"{self.run_dir}/run.json"), "Not a directory")
        other = self.path("other")
        os.makedirs(other)
        images(other, side=6)
        self.refused(quantize(self.run_dir, *some, "--data", f"npy:{other}"), "[1, 6, 6]", "was trained on [1,8,8]")
        bad = self.path("bad")
        os.makedirs(bad)
        for part in "train", "test":
            values = [0.5] * 64 * 40
            if part == "train":
                values[64 * 7 + 3] = float("nan")
            npy(f"{bad}/x_{part}.npy", "<f4", (40, 1, 8, 8), struct.pack(f"<{len(values)}f", *values))
            npy(f"{bad}/y_{part}.npy", "<i4", (40,), struct.pack("<40i", *(i % 4 for i in range(40))))
        self.refused(quantize(self.run_dir, *some, "--data", f"npy:{bad}"), "training sample 7", "NaN")
        self.assertFalse(os.path.exists(out))
        twice = self.path("once")
        report(quantize(self.run_dir, "--output", twice))
        self.refused(quantize(twice, *some), "quantized already")
        self.refused(train(twice, "--resume", "--model", "mlp", "--data", self.data, "--batch", 32), "quantized")


class AllDigits(Kit):
    MODEL, DATA = "lenet5", "digits"

    def test_accuracy(self):
        for how in "minmax", "percentile", "mse":
            told = report(quantize(self.run_dir, "--calibrate", how, "--output", self.path(how)))
            self.assertGreater(told["test_accuracy_before"], 0.95)
            self.assertLess(abs(told["test_accuracy"] - told["test_accuracy_before"]), 0.005)
            self.assertLess(told["bytes"], 0.27 * told["bytes_before"])


class All(Kit):
    """With batch normalization, groups and residuals."""
    MODEL = "mobilenetv2"

    def test_accuracy(self):
        told = report(quantize(self.run_dir, "--output", self.path("mobile")))
        self.assertGreater(told["test_accuracy"], told["test_accuracy_before"] - 0.05)
        self.assertLess(told["bytes"], 0.27 * told["bytes_before"])
        self.assertEqual(len(told["layers"]), 53)
        found, _ = tensors(f"{self.path('mobile')}/best.safetensors")
        self.assertFalse([name for name in found if "_bn" in name])
        self.assertEqual(command("infer", self.path("mobile"), "--input", self.path("x_test.npy")).returncode, 0)


if __name__ == "__main__":
    main()

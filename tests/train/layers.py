"""clade inspect: layers of runs in f32 and bf16, pruned, quantized and trained with --qat; of files, and of models
alone."""
import os
import pathlib
import shutil
import tempfile
import unittest

from common import main, result, train
from images import images
from smaller import command, digest, report, tensors


def inspect(*arguments):
    return report(command("inspect", "--json", *arguments))


def named(told):
    return {layer["name"]: layer for layer in told["layers"] if layer["name"]}


class Small(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(prefix="clade-test-")
        cls.run_dir = cls.path("run")
        result(train(cls.run_dir, "--model", "mlp", "--data", images(cls.room.name), "--batch", 32, "--epochs", 1))
        cls.before = digest(cls.run_dir)
        shapes = [shape for name, (_, shape, _) in tensors(f"{cls.run_dir}/best.safetensors")[0].items()
                  if name.startswith("fc") and name.endswith(".weight")]
        cls.products = {f"fc{i + 1}": shape[0] * shape[1] for i, shape in enumerate(shapes)}
        cls.biases = sum(shape[0] for shape in shapes)

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def tearDown(self):
        self.assertEqual(digest(self.run_dir), self.before, "the run is as it was")

    @classmethod
    def path(cls, name):
        return os.path.join(cls.room.name, name)

    def check(self, told, types, batch=1):
        """Checks FLOPs, and the types of products."""
        layers = named(told)
        self.assertEqual(set(layers), set(self.products))
        for name, n in self.products.items():
            self.assertEqual(layers[name]["flops"], 2 * n * batch)
            self.assertEqual((layers[name]["input_type"], layers[name]["weight_type"]), types)
        self.assertEqual(told["flops"], sum(layer["flops"] for layer in told["layers"]))
        self.assertEqual(told["parameters"], sum(layer["parameters"] for layer in told["layers"]))
        self.assertEqual(told["bytes"], sum(layer["bytes"] for layer in told["layers"]))
        return layers

    def test_f32(self):
        told = inspect(self.run_dir, "--batch", 5)
        self.check(told, ("f32", "f32"), 5)
        elements = sum(self.products.values()) + self.biases
        self.assertEqual((told["parameters"], told["bytes"], told["sparsity"]), (elements, 4 * elements, 0))
        self.assertEqual((told["model"], told["classes"], told["image"], told["batch"]), ("mlp", 4, [1, 8, 8], 5))
        self.assertEqual((told["seconds"], told["quantized"], told["pruned"]), (None, False, False))
        text = command("inspect", self.run_dir)
        self.assertEqual(text.returncode, 0, text)
        self.assertIn(f"{elements:12}", text.stdout)
        self.assertTrue(all(line == line.rstrip() for line in text.stdout.splitlines()))

    def test_time(self):
        told = inspect(self.run_dir, "--time")
        self.assertAlmostEqual(sum(layer["time_share"] for layer in told["layers"]), 1)
        self.assertAlmostEqual(sum(layer["seconds"] for layer in told["layers"]), told["seconds"])
        self.assertTrue(all(layer["seconds"] > 0 for layer in named(told).values()))
        self.assertIn(" ms ", command("inspect", self.run_dir, "--time").stdout)

    def test_bf16(self):
        run = self.path("bf16")
        result(train(run, "--model", "mlp", "--data", f"npy:{self.room.name}", "--batch", 32, "--epochs", 1, "--precision", "bf16",
                     "--types", "fc3=f32"))
        told = inspect(run)
        self.assertEqual(told["precision"], "bf16")
        layers = named(told)
        self.assertEqual([layers[f"fc{i}"]["weight_type"] for i in (1, 2, 3)], ["bf16", "bf16", "f32"])
        self.check(inspect(run, "--precision", "f32"), ("f32", "f32"))
        self.check(inspect(self.run_dir, "--precision", "bf16"), ("bf16", "bf16"))

    def test_pruned(self):
        sparse, narrow = self.path("sparse"), self.path("narrow")
        report(command("prune", "--json", self.run_dir, "--structure", "weights", "--sparsity", 0.5, "--output", sparse))
        told = inspect(sparse)
        self.assertTrue(told["pruned"])
        for layer in self.check(told, ("f32", "f32")).values():
            self.assertAlmostEqual(layer["sparsity"], 0.5, 2)
        pruned = report(command("prune", "--json", self.run_dir, "--sparsity", 0.5, "--output", narrow))
        told = inspect(narrow, "--batch", 8)
        self.assertEqual((told["parameters"], told["flops"]), (pruned["parameters"], pruned["flops"]))
        self.assertLess(told["parameters"], 0.6 * pruned["parameters_before"])

    def test_quantized(self):
        small, trained = self.path("small"), self.path("trained")
        quantized = report(command("quantize", "--json", self.run_dir, "--output", small))
        told = inspect(small)
        self.check(told, ("u8", "i8"))
        self.assertEqual((told["quantized"], told["pruned"], told["bytes"]), (True, False, quantized["bytes"]))
        found, _ = tensors(f"{small}/best.safetensors")
        zeros = sum(data.count(0) for name, (_, _, data) in found.items() if name.endswith(".weight"))
        self.assertAlmostEqual(told["sparsity"], zeros / sum(self.products.values()))
        result(train(self.run_dir, "--qat", "--checkpoint-dir", trained))
        told = inspect(trained)
        self.check(told, ("u8", "i8"))
        self.assertEqual((told["quantized"], told["pruned"], told["bytes"]), (True, False, quantized["bytes_before"]))

    def test_without_a_run(self):
        told = inspect("--model", "mlp", "--image", "1x8x8", "--classes", 4)
        self.check(told, ("f32", "f32"))
        self.assertEqual(told["source"], None)
        file = self.path("weights.safetensors")
        shutil.copy(f"{self.run_dir}/best.safetensors", file)
        self.check(inspect(file, "--model", "mlp", "--image", "1x8x8", "--classes", 4), ("f32", "f32"))
        self.refused(command("inspect", file, "--model", "mlp"), "weights.safetensors", "does not fit the model")

    def refused(self, done, *words, status=1):
        self.assertEqual(done.returncode, status, done)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_refusals(self):
        for words, arguments in ((["which RUN or FILE"], []), (["--model is missing"], ["x.safetensors"]),
                                 (["--model x:"], ["--model", "x"]), (["unexpected argument 'y'"], [self.run_dir, "y"]),
                                 (["--image 3x4:"], ["--model", "mlp", "--image", "3x4"]),
                                 (["--image 1x0x4:"], ["--model", "mlp", "--image", "1x0x4"]),
                                 (["--classes: a run says it itself"], [self.run_dir, "--classes", 3]),
                                 (["--batch 0:"], [self.run_dir, "--batch", 0]),
                                 (["--precision i8:"], [self.run_dir, "--precision", "i8"]),
                                 (["--types needs --precision"], [self.run_dir, "--types", "fc1=f32"])):
            self.refused(command("inspect", *arguments), *words, status=2)
        self.refused(command("inspect", self.run_dir, "--model", "lenet5"), "it holds the model mlp, not lenet5")
        empty = self.path("empty")
        os.makedirs(empty)
        self.refused(command("inspect", empty), "there is no checkpoint in", "empty")
        small = self.path("again")
        report(command("quantize", "--json", self.run_dir, "--output", small))
        self.refused(command("inspect", small, "--precision", "bf16"), ".precision is bf16 as well")
        pathlib.Path(small, "best.safetensors").write_bytes(b"nothing")
        self.refused(command("inspect", small), "best.safetensors")


class All(unittest.TestCase):
    def test_models(self):
        """Parameters and FLOPs equal the published numbers of the models."""
        for model, image, parameters, flops in (("resnet18", "3x224x224", 11_689_512, 3.63e9),
                                                ("mobilenetv2", "3x224x224", 3_504_872, 6.0e8)):
            told = inspect("--model", model, "--image", image, "--classes", 1000)
            self.assertEqual(told["parameters"], parameters)
            self.assertLess(abs(told["flops"] / flops - 1), 0.05)
            self.assertLess(told["sparsity"], 1e-5)


if __name__ == "__main__":
    main()

"""clade prune: the smaller run is an ordinary one with fewer channels or with permanent zeros; and refusals."""
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


def prune(*arguments):
    return command("prune", "--json", *arguments)


def weights(path, name):
    """The floats of a tensor, also if it is stored sparsely."""
    found, metadata = tensors(path)
    _, shape, data = found[name]
    told = metadata.get(f"clade.zeros:{name}")
    if not told:
        return shape, [x for x, in struct.iter_unpack("<f", data)]
    kind, *shape = told.split()
    assert kind == "F32", told
    shape = [int(n) for n in shape]
    n = 1
    for size in shape:
        n *= size
    rest = struct.iter_unpack("<f", data[(n + 7) // 8:])
    values = [next(rest)[0] if data[i // 8] >> i % 8 & 1 else 0.0 for i in range(n)]
    assert next(rest, None) is None
    return shape, values


class Kit(unittest.TestCase):
    MODEL, DATA, EPOCHS = "mlp", None, 2

    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(prefix="clade-test-")
        data = cls.DATA or images(cls.room.name)
        cls.run_dir = os.path.join(cls.room.name, "run")
        result(train(cls.run_dir, "--model", cls.MODEL, "--data", data, "--batch", 32, "--epochs", cls.EPOCHS, "--log-dir",
                     os.path.join(cls.room.name, "logs")))
        cls.before = digest(cls.run_dir)

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def tearDown(self):
        self.assertEqual(digest(self.run_dir), self.before, "the run that was pruned is as it was")

    def path(self, name):
        return os.path.join(self.room.name, name)

    def best(self, name):
        return os.path.join(self.room.name, name, "best.safetensors")

    def refused(self, done, *words, status=1):
        self.assertEqual(done.returncode, status, done)
        for word in words:
            self.assertIn(word, done.stderr)


class Small(Kit):
    def test_channels(self):
        told = report(prune(self.run_dir, "--sparsity", 0.5, "--output", self.path("channels")))
        self.assertEqual({layer["name"] for layer in told["layers"]}, {"fc1.weight", "fc2.weight"})
        left = {layer["name"]: layer["channels"] - layer["removed"] for layer in told["layers"]}
        self.assertTrue(all(n % 16 == 0 and n for n in left.values()), left)
        self.assertEqual(weights(self.best("channels"), "fc2.weight")[0], [left["fc2.weight"], left["fc1.weight"]])
        removed, all_of_them = (sum(layer[key] for layer in told["layers"]) for key in ("removed", "channels"))
        self.assertAlmostEqual(removed / all_of_them, 0.5, delta=0.1)
        for less in "bytes", "flops", "parameters":
            self.assertLess(told[less], 0.7 * told[less + "_before"])
        self.assertTrue(told["computes_less"])
        # The result is an ordinary run: it can be trained, also on two devices, and used for inference.
        again = result(train(self.path("channels"), "--resume", "--epochs", 1))
        self.assertEqual(again["steps"], 10)
        device = json.loads(command("devices", "--json").stdout)["devices"][0]["id"]
        two = shutil.copytree(self.path("channels"), self.path("two"))
        self.assertEqual(result(train(two, "--resume", "--epochs", 2, "--device", device, "--device", device))["steps"], 20)
        self.assertEqual(weights(self.best("two"), "fc2.weight")[0], [left["fc2.weight"], left["fc1.weight"]])
        self.assertEqual(command("infer", two, "--input", self.path("x_test.npy")).returncode, 0)
        self.refused(command("infer", self.best("two"), "--model", "mlp", "--classes", 4, "--input", self.path("x_test.npy")),
                     "a file has the shapes of --model", "name the directory", "fc1.weight")
        # It can be pruned again.
        more = report(prune(two, "--sparsity", 0.4, "--output", self.path("more")))
        self.assertLess(more["parameters"], more["parameters_before"])

    def test_weights_stay_zero(self):
        out = self.path("weights")
        told = report(prune(self.run_dir, "--sparsity", 0.7, "--structure", "weights", "--finetune", 1, "--output", out))
        self.assertFalse(told["computes_less"])
        before = {name: weights(f"{out}/step-0000000010.safetensors", name)[1] for name in ("fc1.weight", "fc2.weight", "fc3.weight")}
        for values in before.values():
            self.assertEqual(sum(x == 0 for x in values), int(0.7 * len(values) + 0.5))
        self.assertLess(told["bytes"], 0.4 * told["bytes_before"])
        self.assertEqual(result(train(out, "--resume", "--epochs", 2))["new_steps"], 10)
        for name, values in before.items():
            after = weights(f"{out}/step-0000000020.safetensors", name)[1]
            self.assertTrue(all((x == 0) == (y == 0) for x, y in zip(after, values)), name)
            self.assertTrue(any(x != y for x, y in zip(after, values)), name)
        self.assertEqual(command("infer", out, "--input", self.path("x_test.npy")).returncode, 0)
        self.refused(prune(out, "--sparsity", 0.5, "--output", self.path("both")), "its weights are pruned", "before")

    def test_two_of_four(self):
        told = report(prune(self.run_dir, "--structure", "2:4", "--output", self.path("2:4")))
        self.assertEqual((told["sparsity"], told["left_out"]), (0.5, []))
        for name in "fc1.weight", "fc2.weight":
            old = weights(f"{self.run_dir}/best.safetensors", name)[1]
            values = weights(self.best("2:4"), name)[1]
            for i in range(0, len(values), 4):
                self.assertEqual(sum(x == 0 for x in values[i:i + 4]), 2)
                self.assertLessEqual(max(abs(x) for x, y in zip(old[i:i + 4], values[i:i + 4]) if y == 0),
                                     min(abs(y) for y in values[i:i + 4] if y != 0))
        done = command("prune", self.run_dir, "--structure", "2:4", "--output", self.path("told"))
        self.assertIn("no kernel here gains", done.stdout)

    def test_cubic(self):
        out = self.path("cubic")
        whole = report(prune(self.run_dir, "--sparsity", 0.6, "--structure", "weights", "--schedule", "cubic", "--finetune",
                             3, "--output", out))
        self.assertEqual((whole["schedule"], whole["finetune"]), ("cubic", 3))
        share = [sum(x == 0 for x in values) / len(values) for values in
                 (weights(f"{out}/step-{step:010}.safetensors", "fc1.weight")[1] for step in (10, 20, 30))]
        for have, epoch in zip(share, (1, 2, 3)):
            self.assertAlmostEqual(have, 0.6 * (1 - (1 - epoch / 3) ** 3), delta=0.001)
        self.assertTrue(os.path.samefile(self.best("cubic"), f"{out}/step-0000000030.safetensors"))
        # An interrupted run resumes to the same bits.
        part = shutil.copytree(out, self.path("part"))
        for name in "step-0000000020", "step-0000000030", "best":
            os.remove(f"{part}/{name}.safetensors")
        result(train(part, "--resume"))
        self.assertTrue(weights(self.best("part"), "fc1.weight") == weights(self.best("cubic"), "fc1.weight"))

    def test_refusals(self):
        empty, out = self.path("empty"), self.path("none")
        os.makedirs(empty, exist_ok=True)
        some = ["--sparsity", 0.5, "--output", out]
        for words, arguments in (
                (["--sparsity 1:", "below 1"], [self.run_dir, "--sparsity", 1, "--output", out]),
                (["--sparsity -0.1:"], [self.run_dir, "--sparsity=-0.1", "--output", out]),
                (["--sparsity nan:"], [self.run_dir, "--sparsity", "nan", "--output", out]),
                (["--sparsity is missing"], [self.run_dir, "--output", out]),
                (["--output is missing"], [self.run_dir, "--sparsity", 0.5]),
                (["which RUN"], some), (["unexpected argument 'x'"], [self.run_dir, "x", *some]),
                (["--structure rows:", "2:4"], [self.run_dir, *some, "--structure", "rows"]),
                (["2:4 is a sparsity of 0.5"], [self.run_dir, "--sparsity", 0.4, "--output", out, "--structure", "2:4"]),
                (["--rank has no effect"], [self.run_dir, *some, "--structure", "weights", "--rank", "l1"]),
                (["--schedule cubic is for"], [self.run_dir, *some, "--schedule", "cubic"]),
                (["--schedule cubic needs"], [self.run_dir, *some, "--schedule", "cubic", "--structure", "weights"]),
                (["--finetune x:"], [self.run_dir, *some, "--finetune", "x"])):
            self.refused(prune(*arguments), *words, status=2)
        self.refused(prune(empty, *some), "empty has no run.json")
        self.refused(prune(self.path("nowhere"), *some), "nowhere")
        self.refused(prune(self.run_dir, "--sparsity", 0.5, "--output", self.run_dir), "something is there already")
        self.refused(prune(self.run_dir, "--sparsity", 0.5, "--output", f"{self.run_dir}/run.json"), "Not a directory")
        self.refused(prune(self.run_dir, *some, "--rank", "batch-norm"), "no batch normalization", "fc1.weight")
        other = shutil.copytree(self.run_dir, self.path("other"))
        kept = json.loads(pathlib.Path(other, "run.json").read_text())
        kept["options"]["model"] = "lenet5"
        pathlib.Path(other, "run.json").write_text(json.dumps(kept))
        self.refused(prune(other, *some), "it holds the model mlp", "says lenet5")
        bare = shutil.copytree(self.run_dir, self.path("bare"))
        for file in pathlib.Path(bare).glob("*.safetensors"):
            file.unlink()
        self.refused(prune(bare, *some), "there is no checkpoint in", "bare")
        self.assertFalse(os.path.exists(out))


class All(Kit):
    MODEL, DATA, EPOCHS = "lenet5", "digits", 1

    def check(self, told, points):
        self.assertGreater(told["test_accuracy_before"], 0.9)
        self.assertGreater(told["test_accuracy"], told["test_accuracy_before"] - points)

    def test_channels(self):
        out = self.path("channels")
        told = report(prune(self.run_dir, "--sparsity", 0.5, "--finetune", 2, "--output", out))
        self.check(told, 0.02)
        left = {layer["name"]: layer["channels"] - layer["removed"] for layer in told["layers"]}
        self.assertEqual(weights(self.best("channels"), "conv2.weight")[0],
                         [left["conv2.weight"], left["conv1.weight"], 5, 5])
        self.assertEqual(weights(self.best("channels"), "fc1.weight")[0], [left["fc1.weight"], 25 * left["conv2.weight"]])
        self.assertLess(told["flops"], 0.6 * told["flops_before"])
        rest = train(out, "--resume", "--epochs", 3)
        self.assertTrue(events(rest)[0]["resumed"])
        self.assertGreater(result(rest)["test_accuracy"], 0.9)

    def test_weights(self):
        told = report(prune(self.run_dir, "--sparsity", 0.8, "--structure", "weights", "--schedule", "cubic", "--finetune",
                            2, "--output", self.path("weights")))
        self.check(told, 0.02)
        self.assertLess(told["bytes"], 0.3 * told["bytes_before"])

    def test_two_of_four(self):
        told = report(prune(self.run_dir, "--structure", "2:4", "--finetune", 1, "--output", self.path("2:4")))
        self.check(told, 0.02)
        self.assertEqual(told["left_out"], ["conv1.weight", "conv2.weight"])

    def test_norm_scales(self):
        run = self.path("mobile")
        data = images(self.room.name)
        result(train(run, "--model", "mobilenetv2", "--data", data, "--batch", 32, "--epochs", 1))
        told = report(prune(run, "--sparsity", 0.5, "--rank", "batch-norm", "--finetune", 1, "--output", self.path("small")))
        shapes = {name: shape for name, (_, shape, _) in tensors(self.best("small"))[0].items()}
        for name, shape in shapes.items():
            if name.endswith(".depthwise.weight"):
                self.assertEqual(shape[1:], [1, 3, 3])
                self.assertEqual(shape[0], shapes[name.replace("depthwise", "project")][1])
        self.assertLess(told["parameters"], 0.6 * told["parameters_before"])


if __name__ == "__main__":
    main()

"""Run directories store options and data; unwritable paths and non-finite data are reported."""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

from common import CLADE, events, main, result, train
from images import images, npy


def infer(*arguments, cwd=None):
    return subprocess.run([CLADE, "infer", *map(str, arguments)], capture_output=True, text=True, timeout=300,
                          check=False, cwd=cwd)


class Kit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(prefix="clade-test-")
        cls.data = images(cls.room.name)
        cls.small = ["--model", "mlp", "--data", cls.data, "--batch", 32]
        cls.first = os.path.join(cls.room.name, "first run")  # contains a space, to test quoting for shells
        cls.options = [*cls.small, "--optimizer", "sgd", "--lr", 0.05, "--seed", 7]
        result(train("--checkpoint-dir", cls.first, *cls.options, "--epochs", 1))

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def path(self, name):
        return os.path.join(self.room.name, name)

    def copied(self, name):
        return shutil.copytree(self.first, self.path(name))

    def refused(self, done, *words, status=1):
        self.assertEqual(done.returncode, status, done)
        for word in words:
            self.assertIn(word, done.stderr)


class Runs(Kit):
    def test_resume_needs_no_options(self):
        whole = result(train(*self.options, "--epochs", 2))["weights_sha256"]
        rest = train(self.copied("rest"), "--resume", "--epochs", 2)
        end = result(rest)
        self.assertEqual((end["weights_sha256"], end["steps"], end["new_steps"]), (whole, 20, 10))
        self.assertEqual(events(rest)[0]["changed"], "epochs 2 (the checkpoint had 1)")
        old = train("--checkpoint-dir", self.copied("old form"), "--resume", "--epochs", 2)
        self.assertEqual(result(old)["weights_sha256"], whole)

    def test_what_is_given_goes_first_and_is_kept(self):
        folder = self.copied("given")
        done = train(folder, "--resume", "--epochs", 2, "--lr", 0.01)
        self.assertIn("lr 0.01 (the checkpoint had 0.05)", events(done)[0]["changed"])
        rates = [e["learning_rate"] for e in events(done) if e["event"] == "step"]
        self.assertEqual(rates, [0.01] * 10)
        kept = json.loads(pathlib.Path(folder, "run.json").read_text())
        self.assertEqual((kept["format"], kept["command"]), (1, "train"))
        self.assertEqual(kept["options"], {"model": "mlp", "data": self.data, "batch": "32", "optimizer": "sgd",
                                           "lr": "0.01", "seed": "7", "epochs": "2"})

    def test_infer_needs_no_options(self):
        x, y = self.path("x_test.npy"), self.path("y.npy")
        self.assertEqual(infer(self.first, "--input", x, "--output", y).returncode, 0)
        rows = list(struct.iter_unpack("<4f", pathlib.Path(y).read_bytes()[-100 * 16:]))
        best = [max(range(4), key=row.__getitem__) for row in rows]
        told = infer(self.first, "--input", x)
        self.assertEqual(told.returncode, 0, told)
        self.assertEqual([int(c) for c in re.findall(r"^image \d+: class (\d) \(0\.\d+\)$", told.stdout, re.M)], best)
        self.assertEqual(json.loads(infer(self.first, "--input", x, "--json").stdout)["answers"], best)
        self.refused(infer(self.first, "--input", x, "--model", "lenet5"), "it holds the model mlp, not lenet5")
        self.refused(infer(self.first), "--input", status=2)
        npy(self.path("larger.npy"), "|u1", (1, 1, 9, 9), bytes(81))
        self.refused(infer(self.first, "--input", self.path("larger.npy")), "its images are [1, 9, 9]", "on [1,8,8]")
        self.refused(infer(f"{self.first}/best.safetensors", "--input", x), "--model is missing", status=2)

    def test_bad_run_files(self):
        folder = self.copied("bad")
        for text, *words in (("[", "line 1"), ("[]", "format 1"), ('{"format": 2, "options": {}}', "format 1"),
                             ('{"format": 1, "options": {"trace": "x"}}', '"trace"'),
                             ('{"format": 1, "options": {"zork": "x"}}', '"zork"'),
                             ('{"format": 1, "options": {"batch": 32}}', '"batch"'),
                             ('{"format": 1, "options": {"strict": "x"}}', '"strict"'),
                             ('{"format": 1, "options": {"device": "x"}}', '"device"'),
                             ('{"format": 1, "options": {"device": [1]}}', '"device"'),
                             ('{"format": 1, "options": {}} x', "line 1")):
            pathlib.Path(folder, "run.json").write_text(text)
            self.refused(train(folder, "--resume"), "run.json", *words)
        pathlib.Path(folder, "run.json").write_text('{"format": 1, "options": {"batch": "x"}}')
        self.refused(train(folder, "--resume"), "--batch x", "run.json", status=2)
        pathlib.Path(folder, "run.json").write_text(" " * 70000)
        self.refused(train(folder, "--resume"), "run.json")
        os.remove(f"{folder}/run.json")  # as in a directory of an older version
        self.assertEqual(result(train("--checkpoint-dir", folder, "--resume", *self.options, "--epochs", 1))["steps"], 10)

    def test_a_second_training_is_refused(self):
        folder = self.copied("second")
        before = pathlib.Path(folder, "best.safetensors").read_bytes()
        for form in [folder], ["--checkpoint-dir", folder]:
            self.refused(train(*form, *self.small), folder, "step 10", "overwrite")
        self.assertEqual(pathlib.Path(folder, "best.safetensors").read_bytes(), before)
        self.refused(train(folder, "--resume", "--overwrite"), "--overwrite", status=2)
        self.refused(train(folder, "--checkpoint-dir", folder), "name one", status=2)
        again = train(folder, "--overwrite", *self.small, "--epochs", 2)
        self.assertFalse(events(again)[0]["resumed"])
        self.assertEqual(result(again)["new_steps"], 20)
        self.assertNotIn("lr", json.loads(pathlib.Path(folder, "run.json").read_text())["options"])

    def test_other_data_of_equal_size(self):
        other = self.path("other")
        os.mkdir(other)
        images(other)
        folder = self.copied("data")
        self.assertEqual(result(train(folder, "--resume", "--data", f"npy:{other}", "--epochs", 2))["steps"], 20)
        x = bytearray(pathlib.Path(other, "x_train.npy").read_bytes())
        x[-70] ^= 1
        pathlib.Path(other, "x_train.npy").write_bytes(x)
        done = train(folder, "--resume", "--data", f"npy:{other}", "--epochs", 3)
        self.refused(done, f"other images (npy:{other}) than these (npy:{other})")
        self.assertEqual(result(train(folder, "--resume", "--data", self.data, "--epochs", 3))["steps"], 30)

    def test_next_commands(self):
        """Printed commands can be executed as they are, in the same directory."""
        def told(*command):
            done = subprocess.run([CLADE, "train", *map(str, command)], capture_output=True, text=True, timeout=300,
                                  check=False, cwd=self.room.name)
            self.assertEqual(done.returncode, 0, done)
            return done.stdout
        folder = self.copied("it's next")
        out = told(folder, "--resume", "--epochs", 2, "--lr", 0.02)
        self.assertIn("\nresuming at step 10 with lr 0.02 (the checkpoint had 0.05), epochs 2 (the checkpoint had 1)\n", out)
        self.assertRegex(out, r"\n10 steps in .* \(20 with those before\), .* without the first step, which compiles")
        commands = [line for line in out.split("\nnext:\n")[1].splitlines() if " train " in line or " infer " in line]
        self.assertEqual(len(commands), 2)
        for line in commands:
            line = line.replace(" x.npy", " x_test.npy")
            done = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=300, check=False,
                                  cwd=self.room.name)
            self.assertEqual(done.returncode, 0, done)
        self.assertIn("\nresuming at step 40\n", told(folder, "--resume"))

    def test_trace_is_looked_at_first(self):
        done = train(*self.small, "--trace", self.path("none/trace.json"))
        self.refused(done, "none/trace.json cannot be written")
        self.assertEqual(done.stdout, "")

    def test_trace_tells_idle_time(self):
        path = self.path("trace.json")
        done = train(*self.small, "--epochs", 1, "--trace", path, "--trace-steps", "2:4")
        idle = events(done)[-1]["trace_idle"]
        with open(path, encoding="utf-8") as file:
            self.assertAlmostEqual(json.load(file)["otherData"]["idle"][0], idle, 5)
        self.assertTrue(0 <= idle <= 1)
        self.assertIsNone(events(train(*self.small, "--epochs", 1))[-1]["trace_idle"])


class All(Kit):
    def test_a_run_from_another_directory(self):
        """Paths among the stored options are absolute."""
        folder = pathlib.Path(self.path("elsewhere"))
        folder.mkdir()
        command = [CLADE, "train", "run", "--model", "mlp", "--data", "npy:..", "--batch", "32", "--epochs", "1",
                   "--log-dir", "logs"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=300)
        done = train(folder / "run", "--resume", "--epochs", 2)
        self.assertEqual(result(done)["steps"], 20)
        self.assertEqual(events(done)[0]["data"], f"npy:{folder.resolve()}/..")
        rows = (folder / "logs" / "scalars.csv").read_text().splitlines()
        self.assertTrue(any(row.split(",")[1:3] == ["20", "train/loss"] for row in rows), rows)

    def test_full_device(self):
        for json_option in [], ["--json"]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([CLADE, "train", *map(str, self.small), "--epochs", "1", *json_option], stdout=full,
                                      stderr=subprocess.PIPE, text=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 1, done)
            self.assertEqual(done.stderr.count("cannot write to standard output"), 1, done)
        trace = train(*self.small, "--epochs", 1, "--trace", "/dev/full")
        self.refused(trace, "/dev/full", "not whole")
        self.assertEqual(events(trace)[-1]["event"], "done")  # the training itself completed

    def test_images_that_are_not_finite(self):
        folder = self.path("nan")
        os.mkdir(folder)
        images(folder)
        values = [0.5] * (320 * 64)
        values[17 * 64 + 5] = float("nan")
        npy(f"{folder}/x_train.npy", "<f4", (320, 1, 8, 8), struct.pack(f"<{len(values)}f", *values))
        npy(f"{folder}/x_test.npy", "<f4", (100, 1, 8, 8), struct.pack("<6400f", *[0.5] * 6400))
        for more in [], ["--detect-anomaly"]:
            done = train("--model", "mlp", "--data", f"npy:{folder}", "--batch", 32, *more)
            self.refused(done, f"npy:{folder}", "element 5 of image 17 is nan")
            self.assertNotIn("learning rate", done.stderr)


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    main()

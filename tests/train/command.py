"""The output and the files of clade train, and their reproducibility."""
import fcntl
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from common import CLADE, events, main, result, train
from images import images, npy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "io"))
from formats import safetensors


PIPE, LINE = 4096, 512  # size of a pipe, and an upper bound of an output line


def unread(pipe):
    return struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"0000"))[0]


class Kit(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(prefix="clade-test-")
        cls.data = images(cls.room.name)
        cls.small = ["--model", "mlp", "--data", cls.data, "--batch", 32]

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def path(self, name):
        return os.path.join(self.room.name, name)


class Command(Kit):
    def test_events(self):
        done = train(*self.small, "--epochs", 2)
        lines = events(done)
        end = result(done)
        self.assertEqual([e["event"] for e in lines if e["event"] != "step"], ["begin", "epoch", "epoch", "done"])
        self.assertEqual([e["step"] for e in lines if e["event"] == "step"], list(range(1, 21)))
        self.assertEqual(end["steps"], 20)
        self.assertGreater(end["test_accuracy"], 0.9)
        self.assertLessEqual(end["test_accuracy"], 1)
        self.assertRegex(end["weights_sha256"], "^[0-9a-f]{64}$")
        self.assertEqual(sum(map(sum, end["confusion"])), 100)
        self.assertAlmostEqual(sum(row[i] for i, row in enumerate(end["confusion"])) / 100, end["test_accuracy"])
        self.assertGreater(end["images_per_s"], 0)

    def test_same_bits(self):
        """Repeated, with another number of threads, and from several concurrent processes."""
        first = result(train(*self.small))
        hashes = {result(train(*self.small, "--threads", n))["weights_sha256"] for n in (1, 2, 4)}
        command = [CLADE, "train", "--json", *map(str, self.small)]
        running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                   for _ in range(3)]
        for process in running:
            hashes.add(re.search('"weights_sha256":"([0-9a-f]+)"', process.communicate(timeout=300)[0])[1])
        self.assertEqual(hashes, {first["weights_sha256"]})
        self.assertNotEqual(result(train(*self.small, "--seed", 7))["weights_sha256"], first["weights_sha256"])

    def test_resume(self):
        """Starts in an empty directory, resumes in a used one; a finished training reports its end again."""
        folder = self.path("resume/on/the/way")
        options = [*self.small, "--checkpoint-dir", folder, "--resume"]
        whole = result(train(*self.small, "--epochs", 4))
        half = result(train(*options, "--epochs", 2))
        self.assertEqual(half["steps"], 20)
        rest = train(*options, "--epochs", 4)
        self.assertTrue(events(rest)[0]["resumed"])
        self.assertEqual(events(rest)[0]["step"], 20)
        self.assertEqual(result(rest)["weights_sha256"], whole["weights_sha256"])
        again = result(train(*options, "--epochs", 4))
        for field in ("test_accuracy", "test_loss", "steps", "weights_sha256"):
            self.assertEqual(again[field], whole[field])
        self.assertTrue(any(name.endswith(".safetensors") for name in os.listdir(folder)))

    def infer(self, weights, images):
        answers = self.path("answers.npy")
        done = subprocess.run([CLADE, "infer", weights, "--model", "mlp", "--classes", "4", "--input", images, "--output",
                               answers], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return list(struct.iter_unpack("<4f", pathlib.Path(answers).read_bytes()[-100 * 16:]))

    def test_infer_normalizes_as_training_did(self):
        """infer gives the same results for a run directory and for plain weights with normalized images."""
        folder, plain = self.path("normalized"), self.path("normalized.npy")
        result(train(*self.small, "--augment", "normalize", "--checkpoint-dir", folder))
        best = pathlib.Path(folder, "best.safetensors").read_bytes()
        text = json.loads(safetensors(best)[1]["clade.text"])["normalize"]
        mean, std = text["mean"][0], text["std"][0]
        pixels = pathlib.Path(self.path("x_test.npy")).read_bytes()[-100 * 64:]
        values = struct.pack("<6400f", *((value / 255 - mean) / std for value in pixels))
        npy(plain, "<f4", (100, 1, 8, 8), values)
        of_weights = self.infer(os.path.join(folder, "best.safetensors"), plain)
        for ours, theirs in zip(self.infer(folder, self.path("x_test.npy")), of_weights):
            for p, q in zip(ours, theirs):
                self.assertAlmostEqual(p, q, places=5)
        self.assertNotAlmostEqual(self.infer(folder, plain)[0][0], of_weights[0][0], places=5)

    def test_another_training_is_refused(self):
        folder = self.path("mine")
        result(train(*self.small, "--epochs", 1, "--checkpoint-dir", folder))
        for other, word in (["--batch", 16], "batch"), (["--seed", 5], "seed"), (["--optimizer", "sgd"], "optimizer"):
            done = train(*self.small, "--epochs", 2, "--checkpoint-dir", folder, "--resume", *other)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(word, done.stderr)

    def test_interrupt(self):
        folder = self.path("interrupted")
        options = [*self.small, "--epochs", 400, "--checkpoint-dir", folder, "--resume"]
        command = [CLADE, "train", "--json", *map(str, options)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, PIPE)
            while '"step"' not in process.stdout.readline():
                pass
            while unread(process.stdout) < PIPE - LINE and process.poll() is None:
                time.sleep(0.01)  # until the signal arrives while it waits for a reader, which can happen at any time
            process.send_signal(signal.SIGINT)
            out, words = process.communicate(timeout=300)
        lines = [json.loads(line) for line in out.splitlines()[1:]]  # readline may have consumed a part of the first
        self.assertEqual(process.returncode, 130, words)
        self.assertIn("--resume", words)
        self.assertEqual(lines[-1]["event"], "stopped")
        end, steps = lines[-1]["step"], [e["step"] for e in lines if e["event"] == "step"]
        self.assertEqual(steps, list(range(end - len(steps) + 1, end + 1)), "lines were lost")
        done = train(*self.small, "--epochs", end // 10 + 1, "--checkpoint-dir", folder, "--resume")
        self.assertTrue(events(done)[0]["resumed"])

    def test_split_by_speed(self):
        """Two devices, here the same one, get the reported shares; one device gets all."""
        both = ["--device", "pocl", "--device", "pocl"]
        done = train(*self.small, "--epochs", 1, *both, "--split", "auto")
        begin = events(done)[0]
        self.assertEqual((sum(begin["split"]), len(begin["optimizer_bytes"]), begin["split_measured"]), (32, 2, True))
        parts = ":".join(map(str, begin["split"]))
        self.assertIn(f"split {parts} measured; --split {parts} gives the same\n", done.stderr)
        again = train(*self.small, "--epochs", 1, *both, "--split", parts)
        self.assertEqual(result(again)["weights_sha256"], result(done)["weights_sha256"])
        self.assertFalse(events(again)[0]["split_measured"])
        alone = train(*self.small, "--epochs", 1, "--split", "auto")
        self.assertEqual(events(alone)[0]["split"], [32])
        wrong = train(*self.small, *both, "--split", "1:2:3")
        self.assertEqual(wrong.returncode, 2, wrong)
        self.assertIn("--split 1:2:3: 3 shares for 2 --device", wrong.stderr)

    def test_without_effect(self):
        for options, words in ((["--momentum", "0.9"], ("--momentum", "--optimizer adam")),
                               (["--momentum", "0", "--optimizer", "adamw"], ("--momentum", "--optimizer adamw")),
                               (["--keep", "2"], ("--keep", "--checkpoint-dir")),
                               (["--checkpoint-steps", "2"], ("--checkpoint-steps", "--checkpoint-dir")),
                               (["--trace-steps", "2:3"], ("--trace-steps", "--trace"))):
            done = train("--data", self.data, *options)
            self.assertEqual(done.returncode, 2, done)
            for word in words:
                self.assertIn(word, done.stderr)

    def test_wrong_usage(self):
        for options, word in ((["--model", "vgg"], "vgg"), (["--data", "mnist:/nonexistent"], "/nonexistent"),
                              (["--batch", "0"], "--batch"), (["--batch", "100000"], "100000"),
                              (["--optimizer", "lion"], "lion"), (["--resume"], "--checkpoint-dir"),
                              (["--augment", "blur=3"], "blur"), (["--split", "1:x"], "--split")):
            done = train("--data", self.data, *options)
            self.assertIn(done.returncode, (1, 2), done)
            self.assertIn(word, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_loss_that_is_not_finite(self):
        done = train(*self.small, "--optimizer", "sgd", "--lr", 1e30, "--detect-anomaly")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"step \d+")
        self.assertRegex(done.stderr, r"fc\d")

    def test_for_people(self):
        done = subprocess.run([CLADE, "train", *map(str, self.small), "--checkpoint-dir", self.path("people")],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("epoch 3/3", "test accuracy", "images/s", "label", "next:", self.path("people")):
            self.assertIn(word, done.stdout)
        self.assertNotIn("\r", done.stdout)  # no progress bar without a terminal


class All(Kit):
    def test_resume_by_the_same_choices(self):
        """Records added meanwhile affect new trainings, but not resumed ones."""
        room, file = pathlib.Path(self.path("tuned")), self.path("other.json")
        room.mkdir(0o700)
        def tune():  # the user's records
            tuned = result(train(*self.small, "--epochs", 1, "--tune", "quick", env={"CLADE_CACHE_DIR": str(room)}))
            self.assertEqual(tuned["steps"], 10)
            return [json.loads(file.read_text()) for file in room.glob("tuning-*.json")]

        # On a busy machine, the time may not suffice for any candidate or for detecting the core; compiled kernels are
        # reused next time.
        has_products = lambda tuned: any(r["op"] == "gemm" for one in tuned for r in one["devices"][0]["records"])
        (records,) = next(filter(has_products, (tune() for _ in range(10))))
        for record in records["devices"][0]["records"]:  # another implementation for every product, with any kernels
            if record["op"] == "gemm":
                record.update(impl="ref", params={})
                del record["kernel"]
        pathlib.Path(file).write_text(json.dumps(records))
        env, folder, afresh = {"CLADE_TUNING": file}, self.path("pinned"), self.path("afresh")
        whole = result(train(*self.small, "--epochs", 2))["weights_sha256"]
        result(train(*self.small, "--epochs", 1, "--checkpoint-dir", folder))
        rest = train(*self.small, "--epochs", 2, "--checkpoint-dir", folder, "--resume", env=env)
        self.assertEqual(result(rest)["weights_sha256"], whole)
        result(train(*self.small, "--epochs", 1, "--checkpoint-dir", afresh, env=env))
        self.assertEqual(self.choices(folder, 10), self.choices(folder, 20))
        self.assertNotEqual(self.choices(folder, 10), self.choices(afresh, 10))

    def choices(self, folder, step):
        """The choices in a checkpoint, for the step and for the test."""
        file, = pathlib.Path(folder).glob(f"step-*{step}.safetensors")
        return json.loads(safetensors(file.read_bytes())[1]["clade.text"])["choices"]

    def test_optimizers_and_schedules(self):
        for optimizer in ("sgd", "adam", "adamw", "rmsprop"):
            end = result(train(*self.small, "--optimizer", optimizer, "--lr", 0.01 if optimizer == "sgd" else 0.001))
            self.assertGreater(end["test_accuracy"], 0.8, optimizer)
        for schedule in ("step", "cosine", "one-cycle"):
            done = train(*self.small, "--schedule", schedule, "--warmup", 3, "--clip-norm", 1, "--weight-decay", 0.01)
            rates = [e["learning_rate"] for e in events(done) if e["event"] == "step"]
            self.assertLess(rates[0], max(rates))
            self.assertLess(rates[-1], max(rates))
            result(done)

    def test_zeros(self):
        """A rate of 0 changes no weight; a decay of 0 disables it in every optimizer; other zeros are no defaults
        either."""
        def sha(*options):
            return result(train(*self.small, "--epochs", 1, *options))["weights_sha256"]

        for optimizer in ("sgd", "adam", "adamw", "rmsprop"):
            still = train(*self.small, "--epochs", 1, "--optimizer", optimizer, "--lr", 0)
            self.assertEqual({e["learning_rate"] for e in events(still) if e["event"] == "step"}, {0}, optimizer)
            more = train(*self.small, "--epochs", 2, "--optimizer", optimizer, "--lr", 0)
            self.assertEqual(result(still)["weights_sha256"], result(more)["weights_sha256"], optimizer)
        self.assertEqual(sha("--optimizer", "adamw", "--weight-decay", 0), sha("--optimizer", "adam"))
        self.assertNotEqual(sha("--optimizer", "adamw"), sha("--optimizer", "adam"))
        self.assertNotEqual(sha("--optimizer", "sgd", "--momentum", 0), sha("--optimizer", "sgd"))


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    main()

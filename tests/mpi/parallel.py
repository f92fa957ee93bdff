"""clade train of a model that several ranks compute together (docs/parallel.md), against one process.
    parallel.py CLADE MPIRUN [all]
"""
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import told
from noise import noise
from ranks import CLADE, ENV, HERE, MPIRUN, children_of, ours, rank_of, run

DIGITS = ["--data", "digits", "--batch", "512", "--seed", "7", "--optimizer", "sgd", "--strict"]
MLP = ["--model", "mlp", "--lr", "0.05", *DIGITS]
ONE = ["--epochs", "1"]


def train(n, *options):
    command = [CLADE, "train", "--json", *options]
    return run(command if n == 1 else [MPIRUN, "-np", str(n), *HERE, *command])


def on_devices(n, *options):
    devices = [word for i in range(n) for word in ("--device", str(i))]
    return run([CLADE, "train", "--json", *options, *devices], {"POCL_DEVICES": " ".join(["pthread"] * n)})


def event(done, kind):
    assert done.returncode == 0, done
    return [e for e in told.events(done.stdout) if e["event"] == kind]


def losses(done):
    return [e["loss"] for e in event(done, "step")]


def tested(done):
    return [e["test_loss"] for e in event(done, "epoch")]


def near(test, ours, theirs, first=1e-5):
    """Compares the losses of 20 steps and of the test."""
    test.assertEqual(len(ours), len(theirs))
    test.assertLess(abs(ours[0] - theirs[0]), first)
    for i, (one, other) in enumerate(zip(ours[:20], theirs[:20])):
        test.assertLess(abs(one - other), 1e-3, (i, ours[:20], theirs[:20]))


def as_one(test, n, layout, *options, micro=1, devices=False, more=()):
    """A layout's losses equal those of one process with the same micro-batches."""
    data = dict(word.split("=") for word in layout.split(",")).get("data", "1")
    shares = ["--micro-batches", str(micro * int(data))]
    one = train(1, *options, *ONE, *(shares if micro * int(data) > 1 else []))
    start = on_devices if devices else train
    many = start(n, *options, *ONE, "--parallel", layout, *more,
                 *(["--micro-batches", str(micro)] if micro > 1 else []))
    near(test, losses(many), losses(one))
    test.assertLess(abs(tested(many)[0] - tested(one)[0]), 1e-3)
    return many


def refused(test, n, options, words, status=1):
    done = train(n, *MLP, *ONE, *options)
    test.assertEqual(done.returncode, status, done)
    test.assertIn(words, done.stderr)


def checkpoint(folder):
    """The tensors of the newest checkpoint, by name."""
    path = os.path.join(folder, max(name for name in os.listdir(folder) if name.startswith("step-")))
    with open(path, "rb") as file:
        data = file.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__")
    return {name: (one["dtype"], one["shape"], data[8 + size + one["data_offsets"][0]:8 + size + one["data_offsets"][1]])
            for name, one in header.items()}


def resumed(test, before, after, *options):
    """Resumes from (ranks, layout) with another one: losses stay close to those of the original layout."""
    def start(layout, *more):
        n, words = layout
        return train(n, *options, *(["--parallel", words] if words else []), *more)
    with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
        kept = ["--checkpoint-dir", os.path.join(room, "run")]
        whole = losses(start(before, "--epochs", "2"))
        event(start(before, *kept, *ONE), "done")
        rest = start(after, *kept, "--epochs", "2", "--resume")
        near(test, losses(rest), whole[len(whole) // 2:], 1e-4)
    return event(rest, "begin")[0]


class Parallel(unittest.TestCase):
    def test_micro_batches(self):
        """One update uses the gradients of all micro-batches; slices may be uneven."""
        whole, parts, uneven = (losses(train(1, *MLP, *ONE, "--micro-batches", n)) for n in ("1", "4", "3"))
        near(self, parts, whole)
        near(self, uneven, whole)
        refused(self, 1, ["--micro-batches", "513"], "513 micro-batches of 512 images")

    def test_tensor(self):
        done = as_one(self, 2, "tensor=2", *MLP)
        self.assertEqual(event(done, "begin")[0]["parallel"],
                         {"data": 1, "tensor": 2, "pipeline": 1, "micro_batches": 1, "interleave": 1})

    def test_measured_link(self):
        """What was measured is kept in checkpoints, and given as options it gives the same bits."""
        tensor = [*MLP, "--parallel", "tensor=2"]
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            kept = ["--checkpoint-dir", os.path.join(room, "run")]
            first = train(2, *tensor, *kept, *ONE, "--link", "auto")
            link = event(first, "begin")[0]["link"]
            self.assertEqual((link["from"], link["tflops_from"]), ("measured", "measured"))
            for name in "us", "gbits", "tflops":
                self.assertEqual(math.frexp(link[name])[0], 0.5, link)
            given = ["--link", f"{link['us']:g},{link['gbits']:g}", "--flops", f"{link['tflops']:g}"]
            self.assertIn(" ".join(given) + " gives the same", first.stderr)
            again = train(2, *tensor, *ONE, *given)
            self.assertEqual(losses(again), losses(first))
            self.assertEqual(event(again, "begin")[0]["link"], {**link, "from": "given", "tflops_from": "given"})
            resumed_link = event(train(2, *kept, "--resume", "--epochs", "2"), "begin")[0]["link"]
            self.assertEqual(resumed_link, {**link, "from": "kept", "tflops_from": "kept"})
        plain = event(train(2, *tensor, *ONE), "begin")[0]["link"]
        self.assertEqual(plain, {"us": 10, "gbits": 80, "tflops": 1, "from": "assumed", "tflops_from": "assumed"})

    def test_pipeline(self):
        as_one(self, 2, "pipeline=2", *MLP, micro=4)

    def test_all_three(self):
        as_one(self, 8, "data=2,tensor=2,pipeline=2", *MLP, micro=2)

    def test_wrong_layouts(self):
        for options, words, status in ((["--parallel", "tensor=3"], "--parallel tensor=3: its product is no divisor", 1),
                                       (["--parallel", "data=2,tensor=2"], "its product is none of the number of ranks", 1),
                                       (["--parallel", "tensor=0"], "--parallel tensor=0: expected", 2),
                                       (["--parallel", "expert=2"], "--parallel expert=2: expected", 2),
                                       (["--parallel", "tensor=2,tensor=2"], "expected a list", 2),
                                       (["--interleave", "2"], "--interleave needs --parallel pipeline=N", 2),
                                       (["--link", "auto"], "--link needs --parallel tensor=N", 2),
                                       (["--parallel", "pipeline=2", "--flops", "1"], "--flops needs --parallel tensor=N", 2),
                                       (["--parallel", "tensor=2", "--link", "20"], "--link 20: expected microseconds", 2),
                                       (["--parallel", "tensor=2", "--split", "1:1"], ".split with .tensor 2", 1),
                                       (["--parallel", "tensor=2", "--compress", "powersgd:2"], ".low_rank with", 1)):
            refused(self, 2, options, words, status)

    def test_another_layout_goes_on(self):
        begin = resumed(self, (4, "tensor=2,pipeline=2"), (1, ""), *MLP, "--momentum", "0.9")
        self.assertIn("tensor 1 (the checkpoint had 2)", begin["changed"])


def disagree(test, first, second, words):
    """Options of rank 0, those of rank 1, and the expected message."""
    both = [shlex.join([CLADE, "train", "--json", *MLP, *ONE, *options]) for options in (first, second)]
    choice = f'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exec {both[0]}; else exec {both[1]}; fi'
    done = run([MPIRUN, "-np", "2", *HERE, "sh", "-c", choice])
    test.assertNotEqual(done.returncode, 0)
    test.assertIn("ranks do not train the same: " + words, done.stderr)


def begun(n, *options):
    """A job that runs until it is stopped, past compilation on all ranks."""
    forever = [CLADE, "train", "--json", *MLP, "--epochs", "10000", "--timeout", "3", *options]
    job = subprocess.Popen([MPIRUN, "-np", str(n), *HERE, *forever], env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True)
    while '"step":3,' not in job.stdout.readline():
        pass
    ranks = sorted((pid for pid in children_of(job.pid) if ours(pid)), key=rank_of)
    assert [rank_of(pid) for pid in ranks] == list(range(n)), ranks
    return job, ranks


class All(unittest.TestCase):
    def test_devices(self):
        as_one(self, 4, "tensor=2,pipeline=2", *MLP, micro=2, devices=True)
        as_one(self, 4, "tensor=2,pipeline=2", *MLP, micro=2, devices=True, more=["--memory", "1"]) # parts of the images, too

    def test_traced(self):
        """Rank 0 has another run for profiling; the others keep theirs."""
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            trace = os.path.join(room, "trace.json")
            train_by = [*MLP, *ONE, "--parallel", "data=2", "--micro-batches", "2", "--timeout", "120"]
            plain, traced = train(2, *train_by), train(2, *train_by, "--trace", trace, "--trace-steps", "3:7")
            self.assertEqual(losses(traced), losses(plain))
            self.assertTrue(os.path.exists(trace))

    def test_lenet5(self):
        lenet5 = ["--model", "lenet5", "--lr", "0.01", *DIGITS]
        layouts = (2, "tensor=2", 1), (2, "pipeline=2", 4), (4, "data=2,tensor=2", 2), (8, "data=2,tensor=2,pipeline=2", 2)
        for n, layout, micro in layouts:
            as_one(self, n, layout, *lenet5, micro=micro)

    def test_resnet18(self):
        """Batch normalization uses the rows of a micro-batch, which are the same in all layouts."""
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            noise(room, 160, 16)
            resnet18 = ["--model", "resnet18", "--data", "npy:" + room, "--batch", "16", "--seed", "7", "--optimizer", "sgd", "--lr",
                        "0.0001", "--strict"]
            for n, layout in (2, "tensor=2"), (3, "tensor=3"), (4, "tensor=4"), (4, "tensor=2,pipeline=2"):
                as_one(self, n, layout, *resnet18, micro=4)

    def test_disagreement_is_named(self):
        disagree(self, ["--parallel", "tensor=2"], ["--parallel", "pipeline=2"], "pipeline is 1 on rank 0 and 2 on rank 1")
        tensor = ["--parallel", "tensor=2"]
        disagree(self, [*tensor, "--link", "20,25"], tensor, "tensor_link is [20.0,25.0,0.0] on rank 0 and [0.0,0.0,0.0]")
        disagree(self, ["--micro-batches", "2"], ["--micro-batches", "4"], "micro_batches is 2 on rank 0 and 4 on rank 1")

    def test_what_does_not_work(self):
        for options, words in ((["--precision", "auto"], ".precision_auto with .tensor 1 and .pipeline 2"),
                               (["--place", "fc1=fallback", "--fallback", "0"], ".place with"),
                               (["--fallback", "0"], ".fallback with"),
                               (["--split", "auto"], ".split with"),
                               (["--micro-batches", "3"], "512 images do not make 3 of them")):
            refused(self, 2, ["--parallel", "pipeline=2", *options], words)
        refused(self, 4, ["--parallel", "data=2,pipeline=2", "--reduce", "mpi"], "has no sums of its own of these 2 ranks")
        refused(self, 2, ["--parallel", "pipeline=2", "--interleave", "30"], "nodes to cut between")

    def test_interleaved(self):
        as_one(self, 2, "pipeline=2", *MLP, micro=4, more=["--interleave", "2"])

    def test_layouts_go_on(self):
        adam = ["--model", "mlp", "--data", "digits", "--batch", "512", "--seed", "7", "--strict"]
        for before, after in (((4, "data=2,tensor=2"), (2, "pipeline=2")), ((1, ""), (4, "tensor=2,pipeline=2")),
                              ((2, "pipeline=2"), (2, "tensor=2"))):
            resumed(self, before, after, *adam)

    def test_checkpoints_are_whole(self):
        """Before any step, they equal those of one process bit by bit."""
        held = {}
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            layouts = [], ["--parallel", "tensor=2,pipeline=2"], ["--parallel", "tensor=2", "--shard", "optimizer"]
            for n, options in zip((1, 4, 4), layouts):
                folder = os.path.join(room, str(len(held)))
                done = train(n, *MLP, *ONE, "--lr", "0", "--checkpoint-dir", folder, *options)
                held[event(done, "done")[0]["weights_sha256"], len(held)] = checkpoint(folder)
        self.assertEqual(len({key[0] for key in held}), 1)
        one, *others = held.values()
        for other in others:
            self.assertEqual(sorted(other), sorted(one))
            for name, (dtype, shape, data) in one.items():
                self.assertEqual(other[name][:2], (dtype, shape), name)
                self.assertTrue(name.startswith("optimizer.") or other[name][2] == data, name)

    def test_sharded_and_compressed(self):
        for options in ["--shard", "optimizer"], ["--shard", "gradients"], ["--compress", "bf16"], ["--clip-norm", "0.05"]:
            plain = options if options[0] == "--clip-norm" else []
            one = losses(train(1, *MLP, *ONE, "--micro-batches", "2", *plain))
            near(self, losses(train(4, *MLP, *ONE, "--parallel", "data=2,tensor=2", *options)), one)
        one = losses(train(1, *MLP, *ONE, "--micro-batches", "2"))
        near(self, losses(train(4, *MLP, *ONE, "--parallel", "data=2,pipeline=2", "--shard", "optimizer")), one)

    def test_a_rank_that_dies(self):
        """The others end within ten seconds, whichever rank died."""
        for rank in 1, 2, 4:
            job, ranks = begun(8, "--parallel", "data=2,tensor=2,pipeline=2")
            os.kill(ranks[rank], signal.SIGKILL)
            since = time.monotonic()
            job.communicate(timeout=60)
            self.assertNotEqual(job.returncode, 0)
            self.assertLess(time.monotonic() - since, 10)

    def test_a_rank_that_is_stopped(self):
        """A waiting rank names it, and no process of the job remains."""
        for rank in 1, 2, 4:
            job, ranks = begun(8, "--parallel", "data=2,tensor=2,pipeline=2")
            os.kill(ranks[rank], signal.SIGSTOP)
            errors = job.communicate(timeout=120)[1]
            self.assertEqual(job.returncode, 75, errors)
            self.assertRegex(errors, r"rank \d has not answered rank \d of 8")
            self.assertFalse([pid for pid in ranks if ours(pid)])

    def test_a_signal_stops_all(self):
        """All ranks stop at the same step, with a checkpoint that can be resumed."""
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            kept = ["--checkpoint-dir", os.path.join(room, "run")]
            job, ranks = begun(4, "--parallel", "tensor=2,pipeline=2", *kept)
            os.kill(ranks[3], signal.SIGUSR2)
            job.communicate(timeout=60)
            self.assertEqual(job.returncode, 0)
            self.assertTrue(any(name.startswith("step-") for name in os.listdir(os.path.join(room, "run"))))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "All" if sys.argv[3:] == ["all"] else "Parallel"], verbosity=2)

"""clade train under mpirun: the same bits as one process with as many devices, and the ways in which a job ends.
    ranks.py CLADE MPIRUN [all]
"""
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import told
from noise import noise

CLADE, MPIRUN = sys.argv[1:3]
HERE = ["--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"]
ENV = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
           POCL_MAX_PTHREAD_COUNT="1")


def train(*options):
    return [CLADE, "train", "--json", *options]


def run(command, env=None):
    return subprocess.run(command, env={**ENV, **(env or {})}, capture_output=True, text=True, timeout=300, check=False)


def events(done):
    return told.events(done.stdout)


def result(done):
    assert done.returncode == 0, done
    ends = [event for event in events(done) if event["event"] == "done"]
    assert len(ends) == 1, done  # from rank 0 only
    return ends[0]


def on_ranks(n, *options):
    return run([MPIRUN, "-np", str(n), *HERE, *train(*options)])


def bits_of(n, model, *more):
    """Weights and accuracy of n ranks, and of one process with n devices."""
    options = ["--model", model, "--data", "digits", "--batch", "64", "--seed", "7", "--epochs", "1", *more]
    devices = [word for i in range(n) for word in ("--device", str(i))]
    both = on_ranks(n, *options), run(train(*options, *devices), {"POCL_DEVICES": " ".join(["pthread"] * n)})
    return [(result(done)["weights_sha256"], result(done)["test_accuracy"]) for done in both]


def resume_by(test, before, after):
    """Resumes with another number of ranks: losses stay close to those of the original number."""
    options = ["--model", "mlp", "--data", "digits", "--batch", "60", "--optimizer", "sgd", "--strict"]
    with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
        kept = ["--checkpoint-dir", os.path.join(room, "run")]
        whole = [e["loss"] for e in events(on_ranks(before, *options, "--epochs", "2")) if e["event"] == "step"]
        result(on_ranks(before, *options, *kept, "--epochs", "1"))
        rest = on_ranks(after, *options, *kept, "--epochs", "2", "--resume")
        result(rest)
    losses = [e["loss"] for e in events(rest) if e["event"] == "step"]
    test.assertIn(f"ranks {after} (the checkpoint had {before})", events(rest)[0]["changed"])
    test.assertEqual(len(losses), len(whole) // 2)
    for ours, theirs in zip(losses[:20], whole[len(losses):]):
        test.assertLess(abs(ours - theirs), 1e-3)


def devices_of(n, *options, **env):
    """The device of each local rank."""
    done = run([MPIRUN, "-np", str(n), *HERE, *train("--model", "mlp", "--data", "digits", "--batch", "1000", "--epochs", "1",
                                                     *options)], {"POCL_DEVICES": "pthread pthread", "CLADE_LOG": "info", **env})
    result(done)
    return [device for _, device in sorted(re.findall(r"number (\d+) of its node, computes on device (\d+)", done.stderr))]


SHARDS = ["optimizer", "gradients"]
POWERSGD = ["--compress", "powersgd:2"]
DIGITS = ["--model", "mlp", "--data", "digits", "--batch", "64", "--seed", "7"]


def checkpoint(folder):
    """The bytes of the newest checkpoint."""
    path = os.path.join(folder, max(name for name in os.listdir(folder) if name.startswith("step-")))
    with open(path, "rb") as file:
        return file.read()


def shards_as_whole(test, n, *options, shards=SHARDS):
    """Sharded ranks give the bits and the checkpoint of ranks that have the whole optimizer; each has a part of its
    state."""
    with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
        whole = on_ranks(n, *options, "--epochs", "1", "--checkpoint-dir", os.path.join(room, "none"))
        has = events(whole)[0]["optimizer_bytes"]
        test.assertEqual(len(set(has)), 1)
        for shard in shards:
            folder = os.path.join(room, shard)
            done = on_ranks(n, *options, "--epochs", "1", "--checkpoint-dir", folder, "--shard", shard)
            test.assertEqual(result(done)["weights_sha256"], result(whole)["weights_sha256"])
            test.assertTrue(checkpoint(folder) == checkpoint(os.path.join(room, "none")))
            parts = events(done)[0]["optimizer_bytes"]
            test.assertEqual(len(parts), n)
            test.assertEqual(sum(parts), has[0])
            test.assertLess(max(parts), has[0])


def disagree(test, *cases):
    """Options of rank 0, those of rank 1, and the expected message."""
    options = ["--model", "mlp", "--data", "digits", "--batch", "64", "--epochs", "1"]
    for first, second, name in cases:
        begun = time.monotonic()
        both = shlex.join(train(*options, *first)), shlex.join(train(*options, *second))
        choice = f'if [ "$OMPI_COMM_WORLD_RANK" = 0 ]; then exec {both[0]}; else exec {both[1]}; fi'
        done = run([MPIRUN, "-np", "2", *HERE, "sh", "-c", choice])
        test.assertNotEqual(done.returncode, 0)
        test.assertIn("ranks do not train the same: " + name, done.stderr)
        test.assertLess(time.monotonic() - begun, 60)


def stopped(test, rank, *options, words="rank {0} has not answered rank {1} of 2"):
    """The other rank reports it, and no process of the job remains."""
    forever = ["--model", "lenet5", "--data", "digits", "--epochs", "10000", "--timeout", "3", *options]
    with subprocess.Popen([MPIRUN, "-np", "2", *HERE, *train(*forever)], env=ENV, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as job:
        while '"step":3,' not in job.stdout.readline():  # all ranks are past compilation
            pass
        ranks = ranks_of(job.pid)
        os.kill(ranks[rank], signal.SIGSTOP)
        errors = job.communicate(timeout=60)[1]
    test.assertEqual(job.returncode, 75)
    test.assertRegex(errors, words.format(rank, 1 - rank))
    test.assertFalse([pid for pid in ranks if ours(pid)])


class Ranks(unittest.TestCase):
    def test_sharded(self):
        shards_as_whole(self, 2, *DIGITS, shards=["gradients"])

    def test_same_bits_as_devices(self):
        self.assertEqual(*bits_of(2, "mlp"))

    def test_split(self):
        self.assertEqual(*bits_of(2, "mlp", "--split", "3:1"))

    def test_wrong_split(self):
        done = on_ranks(2, "--model", "mlp", "--data", "digits", "--split", "3:1:2")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("--split 3:1:2: 3 shares for 2 ranks", done.stderr)

    def test_disagreement_is_named(self):
        disagree(self, (["--seed", "1"], ["--seed", "2"], "seed is 1 on rank 0 and 2 on rank 1"))

    def test_a_rank_that_is_stopped(self):
        stopped(self, 1)

    def test_parts_that_are_empty(self):
        done = on_ranks(2, "--model", "mlp", "--data", "digits", "--batch", "1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a batch of 1 leaves nothing for rank 1 of 2", done.stderr)

    def test_a_rank_that_dies(self):
        """The others end within ten seconds."""
        command = [MPIRUN, "-np", "2", *HERE, *train("--model", "mlp", "--data", "digits", "--epochs", "10000")]
        with subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as job:
            while '"step"' not in job.stdout.readline():
                pass
            os.kill(ranks_of(job.pid)[1], signal.SIGKILL)
            begun = time.monotonic()
            while job.stdout.readline():
                pass
            job.wait(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        self.assertLess(time.monotonic() - begun, 10)

    def test_a_device_for_each(self):
        self.assertEqual(devices_of(3), ["0", "1", "0"])

    def test_bound_as_mpirun_says(self):
        """Threads of a rank stay on the rank's processor, one per processor."""
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("it takes two processors")
        bound = [MPIRUN, "-np", "2", "--bind-to", "core:overload-allowed"]
        env = {name: value for name, value in ENV.items() if name != "POCL_MAX_PTHREAD_COUNT"}
        with subprocess.Popen([*bound, *train("--model", "mlp", "--data", "digits", "--epochs", "10000")], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as job:
            while '"step"' not in job.stdout.readline():
                pass
            sets = [{tuple(os.sched_getaffinity(int(thread))) for thread in os.listdir(f"/proc/{pid}/task")}
                    for pid in ranks_of(job.pid)]
            job.send_signal(signal.SIGUSR2)
            job.communicate()
        self.assertEqual([len(of_rank) for of_rank in sets], [1, 1], sets)
        self.assertNotEqual(*sets)
        told = subprocess.run([*bound, CLADE, "devices", "--json"], env=env, capture_output=True, text=True, check=True).stdout
        self.assertEqual(re.findall(r'"compute_units": *(\d+)', told), ["1", "1"])

    def test_reduced_by_mpi(self):
        """The sum of two numbers does not depend on the order."""
        by_clade, by_mpi = (result(on_ranks(2, *DIGITS, "--epochs", "1", "--reduce", by)) for by in ("clade", "mpi"))
        self.assertEqual(by_mpi["weights_sha256"], by_clade["weights_sha256"])

    def test_wrong_reduce(self):
        done = run(train("--reduce", "x"))
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("--reduce x: expected clade or mpi", done.stderr)

    def test_wrong_compress(self):
        for how in "i8", "powersgd:0", "powersgd:2x", "powersgd":
            done = run(train("--compress", how))
            self.assertEqual(done.returncode, 2, done)
            self.assertIn("--compress", done.stderr)
            self.assertIn("expected", done.stderr)

    def test_wrong_shard(self):
        done = run(train("--shard", "x"))
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("--shard x: expected", done.stderr)

    def test_wrong_timeout(self):
        for text in "-1", "x", "":
            done = run(train("--timeout", text))
            self.assertEqual(done.returncode, 2, done)
            self.assertIn("--timeout", done.stderr)


class All(unittest.TestCase):
    def test_precisions(self):
        self.assertEqual(*bits_of(2, "mlp", "--precision", "bf16"))
        self.assertEqual(*bits_of(2, "mlp", "--precision", "f16", "--shard", "gradients"))
        done = on_ranks(2, *DIGITS, "--epochs", "1", "--precision", "f16", "--reduce", "mpi")
        self.assertEqual((result(done)["precision"], result(done)["skipped"]), ("f16", 0))

    def test_disagreement_is_named(self):
        disagree(self, (["--lr", "0.1"], ["--lr", "0.2"], "lr is 0.1"), (["--augment", "flip"], [], "augment is"),
                 (["--split", "1:3"], [], "split is [16,48] on rank 0 and [32,32] on rank 1"),
                 (["--reduce", "mpi"], [], 'reduce is "mpi" on rank 0 and "clade" on rank 1'),
                 (["--precision", "bf16"], [], 'precision is "bf16" on rank 0 and "f32" on rank 1'),
                 (["--precision", "auto"], [], "precision_auto is true on rank 0 and false on rank 1"),
                 (["--shard", "optimizer"], [], 'shard is "optimizer" on rank 0 and "none" on rank 1'))

    def test_rank_0_that_is_stopped(self):
        stopped(self, 0)

    def test_started_by_srun(self):
        """srun passes the rank by PMIx, and the number of ranks by its own variable."""
        slurm = ["env", "-u", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS=2"]
        result(run([MPIRUN, "-np", "2", *HERE, *slurm, *train("--model", "mlp", "--batch", "1000", "--epochs", "1")]))

    def test_compressed(self):
        """Half the bytes, and about the same training."""
        plain, narrow = (result(on_ranks(2, *DIGITS, "--epochs", "1", "--compress", wire)) for wire in ("f32", "bf16"))
        self.assertLessEqual(narrow["comm"]["bytes"], 0.52 * plain["comm"]["bytes"])
        self.assertNotEqual(narrow["weights_sha256"], plain["weights_sha256"])
        self.assertLess(abs(narrow["test_accuracy"] - plain["test_accuracy"]), 0.05)

    def test_split_by_speed(self):
        """The bits are those of the reported shares, and a resumed training keeps them."""
        options = ["--model", "mlp", "--data", "digits", "--batch", "64", "--seed", "7"]
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            kept = ["--checkpoint-dir", os.path.join(room, "run")]
            half = on_ranks(2, *options, *kept, "--epochs", "1", "--split", "auto")
            result(half)
            begin = events(half)[0]
            self.assertTrue(begin["split_measured"])
            self.assertEqual(sum(begin["split"]), 64)
            parts = ":".join(map(str, begin["split"]))
            self.assertIn(f"split {parts} measured; --split {parts} gives the same", half.stderr)
            rest = on_ranks(2, *kept, "--resume", "--epochs", "2")
        self.assertFalse(events(rest)[0]["split_measured"])
        self.assertEqual(events(rest)[0]["split"], begin["split"])
        whole = result(on_ranks(2, *options, "--epochs", "2", "--split", parts))
        self.assertEqual(result(rest)["weights_sha256"], whole["weights_sha256"])

    def test_a_rank_that_is_stopped_in_a_sum_of_mpi(self):
        """MPI's sum cannot identify the rank, unless one of Clade's sums waits for it as well."""
        stopped(self, 1, "--reduce", "mpi",
                words="rank {0} has not answered rank {1} of 2|mpi: rank {1} of 2 has waited for some other rank")

    def test_resume_by_one_process(self):
        resume_by(self, 2, 1)

    def test_same_bits_as_devices(self):
        for n in (2, 3, 4, 8):
            self.assertEqual(*bits_of(n, "lenet5"))

    def test_sharded(self):
        shards_as_whole(self, 2, *DIGITS)
        for n, optimizer in (2, "sgd"), (3, "adam"), (4, "adamw"):
            shards_as_whole(self, n, "--model", "lenet5", "--data", "digits", "--optimizer", optimizer)
        shards_as_whole(self, 3, *DIGITS, "--optimizer", "rmsprop", "--momentum", "0.9", "--checkpoint-steps", "50")

    def test_compressed_alike(self):
        """Reproducible bits."""
        for options in ["--compress", "f16"], ["--compress", "bf16", "--shard", "gradients"]:
            first, again = (result(on_ranks(3, *DIGITS, *options)) for _ in range(2))
            self.assertEqual(first["weights_sha256"], again["weights_sha256"])

    def test_reduced_by_mpi_what_it_cannot(self):
        for options, words in ((["--compress", "bf16"], ".reduce by mpi with .compress bf16"),
                               (POWERSGD, ".reduce by mpi with .low_rank 2"),
                               (["--shard", "gradients"], ".reduce by mpi with .shard gradients")):
            done = on_ranks(2, *DIGITS, "--reduce", "mpi", *options)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(words, done.stderr)

    def test_reduced_by_mpi_alike(self):
        """Reproducible bits, also with sharded optimizers, and close to those of Clade's sums."""
        for n, model in itertools.product((2, 3, 4), ("mlp", "lenet5")):
            options = ["--model", model, "--data", "digits", "--batch", "60", "--optimizer", "sgd", "--strict", "--epochs", "1"]
            clade, *mpi = [on_ranks(n, *options, *by) for by in
                           ([], ["--reduce", "mpi"], ["--reduce", "mpi"], ["--reduce", "mpi", "--shard", "optimizer"])]
            self.assertEqual(len({result(done)["weights_sha256"] for done in mpi}), 1)
            self.assertGreater(result(mpi[0])["comm"]["bytes"], 0)
            losses = [[e["loss"] for e in events(done) if e["event"] == "step"] for done in (clade, mpi[0])]
            self.assertEqual(*map(len, losses))
            for ours, theirs in zip(*losses):
                self.assertLess(abs(ours - theirs), 1e-3)

    def test_reduced_by_mpi_is_told(self):
        """Shown in the trace, whose steps are MPI's, and when a run is resumed."""
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            kept, trace = ["--checkpoint-dir", os.path.join(room, "run")], os.path.join(room, "trace.json")
            result(on_ranks(2, *DIGITS, "--epochs", "1", *kept, "--reduce", "mpi", "--trace", trace))
            with open(trace, encoding="utf-8") as file:
                self.assertIn("carrier_all_reduce", file.read())
            rest = on_ranks(2, *kept, "--epochs", "2", "--resume", "--reduce", "clade")
            self.assertIn('reduce "clade" (the checkpoint had "mpi")', events(rest)[0]["changed"])

    def test_resume_compressed(self):
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            kept = ["--checkpoint-dir", os.path.join(room, "run")]
            result(on_ranks(2, *DIGITS, "--epochs", "1", *kept))
            rest = on_ranks(2, *kept, "--epochs", "2", "--resume", "--compress", "bf16")
            self.assertIn('compress "bf16" (the checkpoint had "f32")', events(rest)[0]["changed"])

    def test_low_rank(self):
        """A tenth of the bytes, and about the same training; sharding the optimizer changes no bit."""
        plain, thin, *shards = (result(on_ranks(2, *DIGITS, "--epochs", "3", *options))
                                for options in ([], POWERSGD, *([*POWERSGD, "--shard", shard] for shard in SHARDS)))
        self.assertLessEqual(thin["comm"]["bytes"], 0.1 * plain["comm"]["bytes"])
        self.assertLess(abs(thin["test_accuracy"] - plain["test_accuracy"]), 0.02)
        for shard in shards:
            self.assertEqual(shard["weights_sha256"], thin["weights_sha256"])

    def test_resume_low_rank(self):
        """Checkpoints include errors and bases, so the same ranks resume to the same bits; other numbers of ranks, and
        ranks with and without compression, can resume as well."""
        whole = result(on_ranks(2, *DIGITS, *POWERSGD, "--epochs", "2"))
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            run_of = [os.path.join(room, name) for name in ("thin", "plain")]
            result(on_ranks(2, *DIGITS, *POWERSGD, "--epochs", "1", "--checkpoint-dir", run_of[0]))
            result(on_ranks(2, *DIGITS, "--epochs", "1", "--checkpoint-dir", run_of[1]))
            for n, source, options, words in ((2, 0, [], ""), (3, 0, [], "ranks 3"), (1, 0, [], "ranks 1"),
                                              (2, 0, ["--compress", "powersgd:4"], 'compress "powersgd:4"'),
                                              (2, 0, ["--compress", "f32"], 'compress "f32"'), (2, 1, POWERSGD, 'compress "powersgd:2"'),
                                              (2, 0, ["--shard", "gradients"], "")):
                folder = os.path.join(room, "again")
                shutil.copytree(run_of[source], folder)
                rest = on_ranks(n, folder, "--resume", "--epochs", "2", *options)
                self.assertIn(words, str(events(rest)[0]["changed"]))
                self.assertLess(abs(result(rest)["test_accuracy"] - whole["test_accuracy"]), 0.02)
                if not words:
                    self.assertEqual(result(rest)["weights_sha256"], whole["weights_sha256"])
                shutil.rmtree(folder)

    def test_sync_batch_norm(self):
        """Statistics over all ranks' batch equal those of one device with the whole batch."""
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            noise(room, 32, 32)
            options = ["--model", "resnet18", "--data", "npy:" + room, "--batch", "16", "--epochs", "1", "--strict"]
            each, sync = on_ranks(2, *options), on_ranks(2, *options, "--sync-batch-norm")
            first, second, whole = (next(e["loss"] for e in events(done) if e["event"] == "step")
                                    for done in (each, sync, run(train(*options))))
            self.assertLess(abs(second - whole), 1e-5)
            self.assertGreater(abs(first - whole), 1e-4)

    def test_sharded_norm(self):
        """Sharded ranks sum the gradient norm in another order."""
        options = [*DIGITS, "--clip-norm", "0.5", "--optimizer", "sgd", "--strict", "--epochs", "1"]
        whole, optimizer, gradients = [on_ranks(3, *options, "--shard", shard) for shard in ("none", *SHARDS)]
        self.assertEqual(result(optimizer)["weights_sha256"], result(whole)["weights_sha256"])
        losses = [[e["loss"] for e in events(done) if e["event"] == "step"] for done in (whole, gradients)]
        for first, second in zip(*losses):
            self.assertLess(abs(first - second), 1e-3)

    def test_more_ranks_than_parameters(self):
        shards_as_whole(self, 5, *DIGITS)

    def test_resume_sharded(self):
        """One epoch with some shards and one with others, against two epochs without sharding."""
        whole = result(on_ranks(2, *DIGITS, "--epochs", "2"))["weights_sha256"]
        for first, then in ("optimizer", "optimizer"), ("gradients", "gradients"), ("optimizer", "none"), ("none", "gradients"):
            with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
                kept = ["--checkpoint-dir", os.path.join(room, "run")]
                result(on_ranks(2, *DIGITS, "--epochs", "1", *kept, "--shard", first))
                rest = on_ranks(2, *kept, "--epochs", "2", "--resume", "--shard", then)
                self.assertEqual(result(rest)["weights_sha256"], whole)
                self.assertTrue(events(rest)[0]["resumed"])

    def test_resume_sharded_by_others(self):
        """A sharded training of two ranks can be resumed by three or one like an unsharded one."""
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
            for shard in "none", *SHARDS:
                result(on_ranks(2, *DIGITS, "--epochs", "1", "--checkpoint-dir", os.path.join(room, shard), "--shard", shard))
            for n in 1, 3:
                ends = []
                for shard in "none", *SHARDS:
                    folder = os.path.join(room, f"{shard}-{n}")
                    shutil.copytree(os.path.join(room, shard), folder)
                    ends.append(result(on_ranks(n, folder, "--resume", "--epochs", "2"))["weights_sha256"])
                self.assertEqual(len(set(ends)), 1)

    def test_near_one_device(self):
        """Partial sums differ from whole ones by rounding: little, in a strict MLP."""
        options = ["--model", "mlp", "--data", "digits", "--batch", "60", "--optimizer", "sgd", "--strict", "--epochs", "1"]
        whole = [e["loss"] for e in events(run(train(*options))) if e["event"] == "step"]
        for n in (2, 3):
            losses = [e["loss"] for e in events(on_ranks(n, *options)) if e["event"] == "step"]
            self.assertEqual(len(losses), len(whole))
            self.assertLess(abs(losses[0] - whole[0]), 1e-5)
            self.assertLess(abs(losses[19] - whole[19]), 1e-3)

    def test_devices_by_name(self):
        for options, expected in ((["--device", "pocl"], ["0", "1", "0"]), (["--device", "1"], ["1", "1", "1"]),
                                  (["--device", "1", "--device", "0"], ["1", "0", "1"]),
                                  (["--device", ":cpu"], ["0", "1", "0"])):
            self.assertEqual(devices_of(3, *options), expected, options)
        self.assertEqual(devices_of(3, CLADE_DEVICE="pocl"), ["0", "1", "0"])
        self.assertEqual(devices_of(2, CLADE_DEVICE="pocl:1"), ["1", "1"])

    def test_resume_what_several_devices_began(self):
        """The same number of ranks has the run's shares and bits; others have equal shares."""
        options = ["--model", "mlp", "--data", "digits", "--batch", "60"]
        shares = ["--device", "0", "--device", "1", "--split", "2:1"]
        env = {"POCL_DEVICES": "pthread pthread"}
        whole = result(run(train(*options, *shares, "--epochs", "2"), env))["weights_sha256"]
        for n in 2, 3:
            with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
                folder = os.path.join(room, "run")
                result(run(train(*options, *shares, "--epochs", "1", "--checkpoint-dir", folder), env))
                rest = run([MPIRUN, "-np", str(n), *HERE, *train(folder, "--resume", "--epochs", "2")], env)
                self.assertEqual(result(rest)["weights_sha256"] == whole, n == 2)
                with open(os.path.join(folder, "run.json"), encoding="utf-8") as kept:
                    self.assertEqual(json.load(kept)["options"]["split"], "2:1")

    def test_resume(self):
        options = ["--model", "mlp", "--data", "digits", "--batch", "64"]
        room = tempfile.TemporaryDirectory(prefix="clade-test-")
        self.addCleanup(room.cleanup)
        folder = os.path.join(room.name, "run")
        whole = result(on_ranks(2, *options, "--epochs", "2"))
        result(on_ranks(2, *options, "--epochs", "1", "--checkpoint-dir", folder))
        rest = on_ranks(2, *options, "--epochs", "2", "--checkpoint-dir", folder, "--resume")
        self.assertEqual(result(rest)["weights_sha256"], whole["weights_sha256"])
        self.assertTrue(events(rest)[0]["resumed"])

    def test_resume_by_others(self):
        for before, after in (1, 2), (3, 2):
            resume_by(self, before, after)

    def test_a_job_that_is_told_to_end(self):
        """mpirun forwards SIGUSR2; another signal reaches one rank. All ranks stop after the same step, and resuming gives the same
        bits."""
        self.stops(lambda job: job.send_signal(signal.SIGUSR2))
        self.stops(lambda job: os.kill(ranks_of(job.pid)[1], signal.SIGUSR1))

    def stops(self, send):
        options = ["--model", "mlp", "--data", "digits", "--batch", "64"]
        room = tempfile.TemporaryDirectory(prefix="clade-test-")
        self.addCleanup(room.cleanup)
        folder = os.path.join(room.name, "run")
        command = [MPIRUN, "-np", "2", *HERE, *train(*options, "--epochs", "20", "--checkpoint-dir", folder)]
        with subprocess.Popen(command, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as job:
            while '"step"' not in job.stdout.readline():
                pass
            time.sleep(0.3)  # handlers are installed again after LLVM's
            send(job)
            last = told.events(job.stdout.read())[-1]
            self.assertEqual(job.wait(timeout=60), 0)
        self.assertEqual(last["event"], "stopped")
        epochs = str(last["step"] // 187 + 1)
        whole = result(on_ranks(2, *options, "--epochs", epochs))
        rest = result(on_ranks(2, *options, "--epochs", epochs, "--checkpoint-dir", folder, "--resume"))
        self.assertEqual(rest["weights_sha256"], whole["weights_sha256"])


def parent(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return int(stat.read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return None


def children_of(pid):
    return [int(child) for child in os.listdir("/proc") if child.isdigit() and parent(child) == pid]


def ranks_of(mpirun):
    """Processes of two ranks, by rank."""
    found = sorted((pid for pid in children_of(mpirun) if ours(pid)), key=rank_of)
    assert [rank_of(pid) for pid in found] == [0, 1], found
    return found


def rank_of(pid):
    with open(f"/proc/{pid}/environ", encoding="utf-8") as environment:
        return int(dict(word.split("=", 1) for word in environment.read().split("\0") if "=" in word)["OMPI_COMM_WORLD_RANK"])


def ours(pid):
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "clade"
    except OSError:
        return False


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "All" if sys.argv[3:] == ["all"] else "Ranks"], verbosity=2)

"""clade bench: invalid usage, small shapes of everything, and peers that are not installed. Times are not checked."""

import csv
import io
import json
import os
import re
import shutil
import struct
import tempfile
import unittest

import clade
from clade import document, run

GEMM = "tiny m=5 n=7 k=9\nbatched m=4 n=6 k=5 batch=3 trans_a trans_b # a comment\n\nlinked m=3 n=8 k=8\n" \
       "row m=1 n=20 k=30 trans_b frozen_b\ncolumn m=20 n=1 k=30 trans_a frozen_a\n"
CONV = "grouped c=6 h=9 w=8 out=4 kernel=3 pad=1 groups=2\nstrided c=5 h=12 w=11 out=7 kernel=3 stride=2 pad=1\n" \
       "line c=4 w=30 out=6 kernel=5 stride=2 pad=4 dilation=3\nsolid c=4 d=5 h=6 w=7 out=6 kernel=3 pad=2 dilation=2 groups=2\n"


class Bench(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)

    def file(self, text, name="shapes"):
        path = os.path.join(self.room.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def bench(self, *args, **more):
        done = run("bench", *args, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def test_wrong_usage(self):
        shapes = self.file(GEMM)
        for args, word in [([], "what"), (["zork"], "zork"), (["gemm", "more"], "more"),
                           (["gemm", "--set", "vgg16"], "vgg16"), (["conv", "--set", "squares"], "squares"),
                           (["gemm", "--pass", "fwd"], "--pass"), (["conv", "--pass", "up"], "up"),
                           (["gemm", "--dtype", "f8"], "f8"), (["conv", "--dtype", "q8_0"], "q8_0"), (["gemm", "--rounds", "0"], "--rounds"),
                           (["gemm", "--chain", "0"], "--chain"), (["conv", "--batch", "-1"], "--batch"),
                           (["gemm", "--batch", "2"], "--batch"), (["op", "--chain", "2"], "--chain"),
                           (["model", "--dtype", "q8_0"], "--dtype"), (["model", "--peer", "openblas"], "openblas"),
                           (["gemm", "--csv", "--json"], "--csv"), (["gemm", "--peer", "zork"], "zork"),
                           (["all", "--set", "small"], "--set"), (["model", "--pass", "fwd"], "fwd"), (["gemm", "--set", "small", "--shapes", shapes], "one")]:
            done = run("bench", *args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
            self.assertIn(word, done.stderr)

    def test_wrong_shapes(self):
        for text, word in [("a m=1 n=2\n", "no k="), ("ok m=1 n=1 k=1\na m=1 n=x k=3\n", "line 2"), ("a m=0 n=1 k=1", "m is 0"), ("a m=1 n=1 k=1 m=2", "m is given twice"),
                           ("a q=1", "'q'"), ("# nothing\n", "no shape"), ("m=1 n=1 k=1", "no name"), ("a" * 600, "too long"),
                           ("a m=99999999999999999999 n=1 k=1", "line 1")]:
            done = run("bench", "gemm", "--shapes", self.file(text))
            self.assertEqual((done.returncode, done.stdout.count("\n") < 2), (1, True), text)
            self.assertIn(word, done.stderr)
        done = run("bench", "gemm", "--shapes", os.path.join(self.room.name, "none"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot read", done.stderr)
        done = run("bench", "gemm", "--shapes", self.file(GEMM), "--only", "row,nobody")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nobody", done.stderr)
        done = run("bench", "conv", "--shapes", self.file("a c=5 h=8 w=8 out=4 kernel=3 groups=2"))
        self.assertIn("not divisible", done.stderr)
        for text, word in [("a c=4 d=8 w=8 out=4 kernel=3", "a has d= and no h="), ("a c=4 h=8 out=4 kernel=3", "a has no w="),
                           ("a c=4 w=8 out=4 kernel=3 dilation=4", "a: the kernel covers 9 along w, which has 8 with its padding"),
                           ("a c=4 w=8 out=4 kernel=3 dilation=0", "dilation is 0"),
                           ("a c=65536 d=65536 h=65536 w=65536 out=1 kernel=1", "line 1: a has more than 2^40 elements")]:
            self.assertIn(word, run("bench", "conv", "--shapes", self.file(text)).stderr)
        for what, text in [("op", "relu h=9 w=9\nzork h=9 w=9\n"), ("model", "lenet5 side=28\nzork side=28\n")]:
            done = run("bench", what, "--shapes", self.file(text))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("line 2: there is no", done.stderr)

    def test_products(self):
        all_works = ["tiny", "batched", "linked", "row", "column"]
        for dtype, works, only in [("f32", all_works, []), ("bf16", ["row", "tiny"], ["--only", "row,tiny"]),
                                   ("i8", ["row", "tiny"], ["--only", "row,tiny"])]:
            rows = document(self.bench("gemm", "--shapes", self.file(GEMM), "--chain", "3", "--rounds", "1", "--dtype", dtype,
                                       "--json", *only))["rows"]
            self.assertEqual([row["work"] for row in rows], works)
            for row in rows:
                self.assertEqual((row["chain"], row["dtype"], row["peers"]), (3, dtype, {}))
                self.assertGreater(row["gflops"], 0)
                self.assertGreater(row["kernel_seconds"], 0)
                self.assertTrue(row["impl"] and row["impl"] in row["why"], row)

    def test_convolutions(self):
        args = ["conv", "--shapes", self.file(CONV), "--batch", "2", "--chain", "2", "--rounds", "1", "--json"]
        rows = document(self.bench(*args, "--peer", "onednn"))["rows"]
        flops = {"grouped": 2 * 9 * 8 * 4 * 3 * 9, "strided": 2 * 6 * 6 * 7 * 5 * 9, "line": 2 * 13 * 6 * 4 * 5,
                 "solid": 2 * 5 * 6 * 7 * 6 * 2 * 27}
        self.assertEqual([(row["pass"], row["work"]) for row in rows],
                         [(p, w) for p in ["fwd", "bwd-data", "bwd-weights"] for w in flops])
        for row in rows:
            self.assertAlmostEqual(row["gflops"] * row["seconds"] * 1e9 / 2, flops[row["work"]], delta=flops[row["work"]] / 1e3)
            if row["own"]:
                self.assertIn("in blocks of", row["own"]["layouts"])
            for peer in row["peers"].values():
                self.assertEqual(peer["against"], "clade_own" if row["own"] else "clade")
        found = self.bench(*args, "--peer", "onednn_nchw", "--pass", "fwd", "--only", "grouped")
        for peer in document(found)["rows"][0]["peers"].values():
            self.assertEqual(peer["against"], "clade")

    def test_ops(self):
        names = re.search("there are (.*)$", run("bench", "op", "--only", "zork").stderr, re.M)[1].split(", ")
        self.assertEqual(len(names), 61)
        shapes = self.file("".join(f"{name} n=2 c=6 h=10 w=16\n" for name in names))
        rows = document(self.bench("op", "--shapes", shapes, "--rounds", "1", "--json"))["rows"]
        self.assertEqual([row["work"] for row in rows], names)
        for row in rows:
            at_random = row["work"].startswith(("gather", "embedding")) and row["work"] != "gather_columns"
            reads = row["work"].startswith(("sum", "arg_max")) or row["work"] in ("global_avg_pool", "bias_grad")
            spreads = row["work"] == "avg_pool_grad"
            bound = ["rows"] if at_random else ["read"] if reads else ["spread"] if spreads else []
            self.assertEqual(list(row["peers"]), ["copy", *bound])
            self.assertTrue(row["impl"], row)

    def test_models(self):
        lines = "lenet5@train batch=2 channels=1 side=28 classes=10 train\nlenet5@infer batch=2 channels=1 side=28 classes=10\n"
        for passes, args in [(["train", "infer"], []), (["infer"], ["--pass", "infer", "--batch", "3"])]:
            rows = document(self.bench("model", "--shapes", self.file(lines), "--rounds", "1", "--json", *args))["rows"]
            self.assertEqual([row["pass"] for row in rows], passes)
            for row in rows:
                self.assertGreater(row["images_per_s"], 0)
        done = run("bench", "model", "--shapes", self.file("lenet6@1 side=28"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("lenet6", done.stderr)

    def test_layers_of_a_model(self):
        """The total for oneDNN covers convolutions, normalizations, ReLUs, additions, pooling, the mean and the
        product."""
        lines = "resnet18@train batch=1 side=32 classes=10 train\n"
        done = self.bench("model", "--shapes", self.file(lines), "--rounds", "1", "--peer", "onednn", "--json")
        if "without onednn" in done.stderr:
            self.skipTest(done.stderr)
        found = document(done)["rows"][0]["peers"]["onednn"]["kernel"]
        forward = 20 + 20 + 17 + 8 + 1 + 1
        back = 20 + 19 + 20 + 17 + 1 + 2 + 8  # gradients are summed where a value is used twice
        self.assertIn(f"the sum of {forward + back} layers", found)

    def test_a_peer_that_dies(self):
        """A peer process dies before it is ready, in its first step, or later: it is named, and the others continue."""
        python = self.file("#!/bin/sh\n[ $# -gt 3 ] || exit 0\n$READY\nread step\n$STEP\nread result\n"
                           "cp $LOSS ${2%/*}/result.f32\necho 1\n", "python")
        os.chmod(python, 0o700)
        loss = os.path.join(self.room.name, "loss")
        shapes = self.file("lenet5@train batch=1 channels=1 side=28 classes=10 train\n")

        def bench(value, ready="echo ready 1 a version", step="echo 0.001"):
            with open(loss, "wb") as file:
                file.write(struct.pack("<f", value))
            return run("bench", "model", "--shapes", shapes, "--rounds", "1", "--peer", "pytorch", "--json",
                       env={"CLADE_BENCH_PYTHON": python, "READY": ready, "STEP": step, "LOSS": loss})

        wrong = re.search("result 0 is ([0-9.]+), by pytorch 0$", bench(0).stderr, re.M)
        self.assertTrue(wrong)
        for more, word in [({"ready": "exit 1"}, "its process ended before it was ready"), ({"step": "exit 1"}, "its process ended"),
                           ({}, "its process ended")]:
            done = bench(float(wrong[1]), **more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, f"without pytorch: .*{word}")
            self.assertEqual(document(done)["rows"][0]["peers"], {})

    def test_a_peer_that_declines(self):
        """A peer process that cannot take part is named, and the others continue."""
        python = self.file("#!/bin/sh\n[ $# -gt 3 ] || exit 0\necho without a reason\n", "python")
        os.chmod(python, 0o700)
        done = self.bench("conv", "--shapes", self.file("line c=4 w=30 out=6 kernel=5\n"), "--pass", "fwd", "--rounds", "1",
                          "--peer", "pytorch", "--json", env={"CLADE_BENCH_PYTHON": python})
        self.assertIn("without pytorch: a reason", done.stderr)
        self.assertEqual(document(done)["rows"][0]["peers"], {})

    def test_a_peer_that_is_wrong(self):
        """A wrong result of a peer's process ends its part alone."""
        python = self.file("#!/bin/sh\n[ $# -gt 3 ] || exit 0\necho ready 1 a version\nwhile read word more; do case $word in\n"
                           "step) echo 0.001;;\nresult) head -c 16 /dev/zero > ${2%/*}/result.f32; echo 4;;\n*) echo done;;\nesac; done\n",
                           "python")
        os.chmod(python, 0o700)
        done = self.bench("gemm", "--shapes", self.file("tiny m=2 n=2 k=9\n"), "--rounds", "1", "--peer", "pytorch", "--json",
                          env={"CLADE_BENCH_PYTHON": python})
        self.assertRegex(done.stderr, "without pytorch: .*the product is wrong")
        self.assertEqual(document(done)["rows"][0]["peers"], {})

    def test_csv_and_google(self):
        shapes, path = self.file("tiny m=5 n=7 k=9\n"), os.path.join(self.room.name, "google.json")
        done = self.bench("gemm", "--shapes", shapes, "--rounds", "1", "--csv", "--google", path)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([(row["work"], row["who"], row["shape"]) for row in rows], [("tiny", "clade", "m=5 n=7 k=9")])
        self.assertGreater(float(rows[0]["gflops"]), 0)
        done = self.bench("op", "--shapes", self.file("gather h=64 w=16\n"), "--rounds", "1", "--csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))  # quoted text that contains a comma
        self.assertEqual([row["impl"] for row in rows if row["who"] == "rows"], ["a kernel, rows at random"])
        self.assertTrue(all(None not in row and float(row["seconds"]) < 1 for row in rows), rows)
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        self.assertEqual([b["name"] for b in found["benchmarks"]], ["gemm/forward/f32/tiny/clade"])
        self.assertEqual(found["benchmarks"][0]["time_unit"], "ns")
        self.assertGreater(found["benchmarks"][0]["real_time"], 0)
        for args in [["gemm", "--shapes", shapes, "--google"], ["compare", "--html"]]:  # before anything is measured
            done = run("bench", *args, os.path.join(self.room.name, "no", "such"))
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("such cannot be written: No such file", done.stderr)

    def test_a_peer_that_is_not_there(self):
        """A library file without the expected functions."""
        for name in ["libopenblas.so.0", "libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2", "libclblast.so.1"]:
            shutil.copy(os.environ["CLADE_ABORTING_ICD"], os.path.join(self.room.name, name))
        gemm, conv = ["gemm", "tiny m=2 n=2 k=2"], ["conv", "tiny c=1 h=3 w=3 out=1 kernel=3 pad=1", "--pass", "fwd"]
        for (what, text, *more), peer, package in [(gemm, "openblas", "libopenblas0-pthread"), (gemm, "clblast", "libclblast1"),
                                                   (conv, "onednn", "libdnnl2")]:
            done = self.bench(what, *more, "--shapes", self.file(text), "--rounds", "1", "--peer", peer, "--json",
                              env={"LD_LIBRARY_PATH": self.room.name})
            self.assertIn(f"apt-get install -y --no-install-recommends {package}", done.stderr)
            self.assertEqual((document(done)["rows"][0]["peers"], document(done)["summary"]), ({}, {}))


if __name__ == "__main__":
    clade.main()

"""clade tune for single operations: products and convolutions of shape sets and files, in types and passes."""

import glob
import json
import os
import tempfile
import unittest

import clade
from clade import document, run

SHAPES = "# of a user\nfirst c=8 h=6 w=6 out=8 kernel=3 pad=1\nsecond c=8 h=6 w=6 out=8 kernel=1 groups=2\n"


class Kit(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)
        os.chmod(self.room.name, 0o700)

    def tune(self, *args, budget=20, **env):
        """The budget suffices for some candidates of a small problem on a busy machine, at one to two seconds each."""
        return run("tune", *args, "--budget", str(budget), env={"CLADE_CACHE_DIR": self.room.name, **env})

    def document(self, *args, **how):
        done = self.tune("--json", *args, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        return document(done)

    def rows(self, *args):
        """Problems, the requested shapes, and the rows."""
        rows = [row for row in self.document(*args)["rows"] if row["op"] != "func"]
        return [row["target"] for row in rows], rows

    def file(self, text):
        path = os.path.join(self.room.name, "shapes")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path


class Tune(Kit):
    def test_nothing_is_measured_that_is_not_kept(self):
        os.chmod(self.room.name, 0o777)
        absent = "/proc/none/cache"
        for directory, word in [("off", "CLADE_CACHE_DIR"), (self.room.name, self.room.name), (absent, absent)]:
            done = run("tune", "64x64x64", env={"CLADE_CACHE_DIR": directory})
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(word, done.stderr)

    def test_bad_files(self):
        for text, told in [("good c=8 h=6 w=6 out=8 kernel=1\nzork c=8 q=1\n", "line 2: there is no key 'q'"),
                           ("zork c=8 h=6 w=6 out=8\n", "line 1: zork has no kernel="),
                           ("zork c=8 h=6 w=6 out=8 kernel=x\n", "line 1: kernel is x"),
                           ("\nzork c=8 h=6 w=6 out=8 kernel=1 groups=3\n", "line 2: zork: c=8 and out=8 are not"),
                           ("zork c=8 h=6 w=6 out=8 kernel=9\n", "line 1: zork: the kernel covers 9 along h"),
                           ("# nothing\n", "holds no shape")]:
            path = self.file(text)
            done = self.tune("conv", "--shapes", path)
            self.assertEqual((done.returncode, done.stdout), (1, ""), text)
            self.assertRegex(done.stderr, r"^clade: [^\n]*\n$")
            self.assertIn(f"{path}", done.stderr)
            self.assertIn(told, done.stderr)
        done = self.tune("gemm", "--shapes", os.path.join(self.room.name, "none"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot read", done.stderr)
        self.assertIn("'zork'", self.tune("gemm", "--set", "small", "--only", "zork").stderr)


class All(Kit):
    def test_convolutions_of_a_file(self):
        path = self.file(SHAPES)
        targets, rows = self.rows("conv", "--shapes", path)
        passes = {"fwd": "conv2d", "bwd-data": "conv2d_data", "bwd-weights": "conv2d_weights"}
        self.assertEqual(targets, [f"conv {name} {step}" for step in passes for name in ("first", "second")])
        self.assertEqual([row["op"] for row in rows], [op for op in passes.values() for _ in range(2)])
        self.assertTrue(all(row["after_seconds"] > 0 and not row["known"] for row in rows), rows)
        targets, rows = self.rows("conv", "--shapes", path, "--pass", "fwd", "--only", "second")
        self.assertEqual((targets, rows[0]["known"]), (["conv second fwd"], True))
        targets, rows = self.rows("conv", "--shapes", path, "--pass", "fwd", "--only", "first", "--batch", "3",
                                  "--dtype", "bf16")
        self.assertIn("bf16[3,8,6,6] bf16[8,8,3,3] -> bf16", rows[0]["problem"])
        targets, rows = self.rows("conv", "--shapes", self.file("line c=8 w=40 out=8 kernel=5 pad=2\n"), "--pass", "fwd")
        self.assertEqual((targets, rows[0]["op"]), (["conv line fwd"], "conv2d"))

    def test_products_of_a_set_and_of_a_file(self):
        targets, rows = self.rows("gemm", "--set", "small", "--only", "64")
        self.assertEqual((targets, rows[0]["problem"]), (["gemm 64"], "f32[64,64] f32[64,64] -> f32"))
        _, rows = self.rows("64x64x64")
        self.assertTrue(rows[0]["known"])  # the same product in another notation
        self.assertIn("--again measures what is known, too", self.tune("64x64x64").stdout)
        path = self.file("mine m=20 n=7 k=9 batch=2 trans_b frozen_b\n")
        _, rows = self.rows("gemm", "--shapes", path, "--dtype", "u8")
        self.assertEqual(rows[0]["problem"], "trans_b=1 u8[2,20,9] i8[2,7,9] -> i32")

    def test_the_kind_of_core_is_kept(self):
        """With too little time, no problem is begun, the func is not timed as a whole, and both are reported."""
        done = self.tune("--json", "64x64x64", "mlp", budget=0.01)
        told = document(done)
        self.assertEqual((told["rows"], told["summary"]["measured"]), ([], 0))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"nothing was measured: .* give a larger --budget")
        [path] = glob.glob(os.path.join(self.room.name, "tuning-*.json"))
        with open(path, encoding="utf-8") as file:
            self.assertIn(json.load(file)["devices"][0]["device"]["fma_units"], (1, 2))

    def test_a_budget_is_kept(self):
        """Measured from the func's creation, with empty caches. The last batch may exceed the budget by less than a
        second plus half the compile time of the func's own kernels, which scales with the machine's load."""
        driver = os.path.join(self.room.name, "pocl")
        os.mkdir(driver)
        told = document(self.tune("--json", "mlp", "--batch", "16", budget=5, POCL_CACHE_DIR=driver))
        self.assertLess(told["seconds"] - told["compile_seconds"], 5 + 1 + told["compile_seconds"] / 2, told)

    def test_what_was_gained_is_told(self):
        done = self.tune("gemm", "--set", "small", "--only", "64,128", "--mode", "full")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"before +after +gain +problem: what is taken")
        self.assertRegex(done.stdout, r"us +[\d.]+us +[\d.]+x +gemm f32\[128,128\] f32\[128,128\] -> f32: ")
        self.assertRegex(done.stdout, r"2 problems looked at in [\d.]+ s, after [\d.]+ s of compiling: 2 measured, 0 known already")


if __name__ == "__main__":
    clade.main()

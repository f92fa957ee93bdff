"""clade infer --demo mlp: reproducible bits, a valid trace, and an explanation that names nodes."""

import hashlib
import json
import os
import re
import shutil
import tempfile
import unittest

import clade
from clade import document, run

MLP = ["infer", "--demo", "mlp"]


class Infer(unittest.TestCase):
    def infer(self, *args, **more):
        done = run(*MLP, "--json", *args, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return document(done)

    def test_same_bits(self):
        with tempfile.TemporaryDirectory() as cold:
            first = self.infer(env={"CLADE_CACHE_DIR": cold})
            second = self.infer(env={"CLADE_CACHE_DIR": cold})
        self.assertRegex(first["output_sha256"], "^[0-9a-f]{64}$")
        self.assertEqual(first["output_sha256"], second["output_sha256"])
        self.assertLessEqual(first["max_error"], first["error_bound"])
        self.assertLess(first["error_bound"], 1e-3)
        self.assertGreater(first["seconds"], 0)
        self.assertGreater(first["first_result_seconds"], first["seconds"])

    def test_wrong_result_is_found(self):
        """The command fails if a kernel's result is off by 1e-3."""
        with tempfile.TemporaryDirectory() as room:
            kernels = shutil.copytree(os.path.join(clade.ROOT, "cl_kernels"), os.path.join(room, "kernels"))
            path = os.path.join(kernels, "gemm.cl")
            with open(path, encoding="utf-8") as file:
                text = file.read()
            wrong = re.sub(r"\* alpha\b", "* alpha * 1.001f", text)
            self.assertFalse(text == wrong, "nothing was changed")
            with open(path, "w", encoding="utf-8") as file:
                file.write(wrong)
            done = run(*MLP, "--json", env={"CLADE_KERNEL_DIR": kernels, "CLADE_CACHE_DIR": room})
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("the output is wrong", done.stderr)

    def test_seed_and_batch_matter(self):
        found = [self.infer(*args)["output_sha256"]
                 for args in [[], ["--seed", "7"], ["--batch", "1"], ["--batch", "7"], ["--batch", "300"]]]
        self.assertEqual(len(set(found)), len(found))
        self.assertNotIn(hashlib.sha256(b"").hexdigest(), found)

    def test_impls(self):
        impls = self.infer()["impls"]
        self.assertEqual([row["op"] for row in impls].count("gemm"), 3, impls)
        self.assertTrue(all(row["impl"] for row in impls), impls)

    def test_trace(self):
        with tempfile.TemporaryDirectory() as room:
            path = os.path.join(room, "trace.json")
            self.infer("--trace", path)
            with open(path, encoding="utf-8") as file:
                trace = json.load(file)
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        kernels = [event for event in events if event["ph"] == "X"]
        self.assertGreaterEqual(len(kernels), 4)
        for event in kernels:
            self.assertGreaterEqual(event["dur"], 0)
            self.assertTrue(event["name"])
            self.assertIn("ts", event)

    def test_trace_that_cannot_be_written(self):
        done = run(*MLP, "--trace", "/nonexistent/trace.json")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/trace.json", done.stderr)

    def test_precision(self):
        for args, word in [(["--precision", "bf16"], "no --precision"), (["--precision", "i8"], "expected f32, bf16 or f16"),
                           (["--types", "gemm=f32"], "--types needs --precision")]:
            done = run(*MLP, *args)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(word, done.stderr)

    def test_explain(self):
        done = run(*MLP, "--explain")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"gemm")
        for row in self.infer()["impls"]:
            self.assertRegex(done.stdout, rf"\b{re.escape(row['impl'])}\b")
        self.assertNotIn("ref: ", done.stdout)
        whole = run(*MLP, "--explain=all")
        self.assertEqual(whole.returncode, 0)
        self.assertRegex(whole.stdout, r"(?m)^gemm .*; ref: ")
        aside = run(*MLP, "--explain", "--json")
        document(aside)
        self.assertIn("gemm", aside.stderr)

    def test_for_people(self):
        done = run(*MLP)
        self.assertEqual(done.returncode, 0)
        self.assertIn("sha256 " + self.infer()["output_sha256"], done.stdout)
        self.assertIn("right: ", done.stdout)


if __name__ == "__main__":
    clade.main()

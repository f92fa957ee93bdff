"""clade bench with PyTorch and ONNX Runtime, if installed: their results are verified before they are timed."""
import os
import tempfile
import unittest

import clade
from bench import CONV, GEMM
from clade import document, run


class Pytorch(unittest.TestCase):
    def rows(self, what, shapes, *args):
        with tempfile.TemporaryDirectory() as room:
            path = os.path.join(room, "shapes")
            with open(path, "w", encoding="utf-8") as file:
                file.write(shapes)
            done = run("bench", what, "--shapes", path, "--rounds", "1", "--json", *args, unset=["PYTHONPATH"])
        self.assertEqual(done.returncode, 0, done.stderr)
        if "python3-torch" in done.stderr or "pip install numpy onnxruntime" in done.stderr:
            self.skipTest(done.stderr)
        self.assertNotIn("without", done.stderr)
        return document(done)["rows"]

    def test_products(self):
        for row in self.rows("gemm", GEMM, "--chain", "3", "--peer", "pytorch"):
            self.assertGreater(row["peers"]["pytorch"]["ratio"], 0, row)

    def test_convolutions(self):
        for peer, only in ("pytorch", "grouped,strided,line,solid"), ("pytorch_nhwc", "grouped,solid"):
            for row in self.rows("conv", CONV, "--batch", "2", "--chain", "2", "--peer", peer, "--only", only):
                own = row["own"] and peer == "pytorch_nhwc"
                self.assertEqual(row["peers"][peer]["against"], "clade_own" if own else "clade")

    def test_ops(self):
        names = ["relu", "max_pool_3x3s2_grad", "batch_norm_grad", "layer_norm", "embedding_grad@16", "adam", "heads"]
        for row in self.rows("op", "".join(f"{name} n=2 c=6 h=10 w=16\n" for name in names), "--peer", "pytorch"):
            self.assertEqual(list(row["peers"])[-1], "pytorch")

    def test_models(self):
        for peer, *more in ["pytorch"], ["pytorch_nhwc"], ["pytorch_nhwc", "--dtype", "bf16"]:
            for row in self.rows("model", "lenet5@2 batch=2 channels=1 side=28 classes=10 train\n", "--peer", peer, *more):
                self.assertGreater(row["peers"][peer]["ratio"], 0, row)

    def test_inferences(self):
        """The quantized ONNX models have additions, pooling, depthwise layers and a linear layer."""
        shapes = "lenet5@2 batch=2 channels=1 side=28 classes=10\nresnet18@72 batch=1 side=72 classes=10\n" \
                 "mobilenetv2@32 batch=1 side=32 classes=10\n"
        for dtype in "f32", "i8":
            for row in self.rows("model", shapes, "--peer", "onnxruntime", "--dtype", dtype):
                self.assertGreater(row["peers"]["onnxruntime"]["ratio"], 0, row)


if __name__ == "__main__":
    clade.main()

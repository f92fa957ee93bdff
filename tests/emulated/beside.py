"""The command on the emulated accelerator with PoCL's own device as its companion: beside.py CLADE BUNDLE

It trains to the losses of PoCL's device alone, the trace tells who computed what, and words that cannot be followed are
refused."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "train"))
from common import CLADE, events, result, train
from images import images

os.environ["CLADE_BUNDLE_PATH"] = sys.argv[2]
BESIDE = ["--device", "emulated", "--companion", "pocl"]


def losses(done):
    result(done)
    return [event["loss"] for event in events(done) if event["event"] == "step"]


def infer(*arguments):
    done = subprocess.run([CLADE, "infer", "--demo", "mlp", "--batch", "8", "--json", *arguments], capture_output=True,
                          text=True, timeout=300, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


class Beside(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory(dir=os.environ["HOME"])
        cls.small = ["--model", "mlp", "--data", images(cls.room.name), "--batch", 32, "--epochs", 1]

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def test_train(self):
        path = os.path.join(self.room.name, "trace.json")
        alone = losses(train(*self.small, "--device", "pocl"))
        both = losses(train(*self.small, *BESIDE, "--place", "gemm=home,cross_entropy=companion", "--trace", path))
        self.assertEqual(len(both), 10)
        for step, (a, b) in enumerate(zip(alone, both)):
            self.assertAlmostEqual(a, b, delta=1e-5, msg=f"step {step}")
        done = [e for e in json.loads(pathlib.Path(path).read_text())["traceEvents"] if e["ph"] == "X"]
        ran = {device: {(e["name"], e["args"]["impl"].startswith("systolic")) for e in done
                        if e["pid"] == device and e["args"]["kernel"]} for device in (0, 1)}
        self.assertIn(("cross_entropy", False), ran[1])
        self.assertNotIn("cross_entropy", {name for name, _ in ran[0]})
        self.assertEqual({bundled for _, bundled in ran[0]}, {True})
        self.assertIn("update", {name for name, _ in ran[0]})

    def test_infer(self):
        home, away = (infer(*BESIDE, "--place", f"gemm=home,softmax={at}") for at in ("home", "companion"))
        at = [{row["device"] for row in told["impls"] if row["op"] == "softmax"} for told in (home, away)]
        self.assertEqual(at, [{0}, {1}])
        self.assertEqual((away["bytes_to_companion"], away["bytes_from_companion"]), (8 * 10 * 4, 0))
        self.assertLessEqual(away["max_error"], away["error_bound"])

    def test_refusals(self):
        self.assertIn("there is no companion to be placed on", infer("--device", "emulated", "--place", "gemm=companion"))
        self.assertIn('"gem=companion": the graph computes no node', infer(*BESIDE, "--place", "gem=companion"))
        done = train(*self.small, *BESIDE, "--place", "gemm=here")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("NAME=home or NAME=companion is expected", done.stderr)


unittest.main(argv=sys.argv[:1])

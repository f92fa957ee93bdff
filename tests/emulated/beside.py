"""The command on the emulated accelerator with PoCL's device as fallback: beside.py CLADE BUNDLE

Trains to the losses of PoCL's device alone; the trace shows where nodes ran, and invalid placements are refused."""
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
BESIDE = ["--device", "emulated", "--fallback", "pocl"]


def losses(done):
    result(done)
    return [event["loss"] for event in events(done) if event["event"] == "step"]


def places(path):
    """From a trace: device, node, and whether it used a bundle kernel."""
    done = [e for e in json.loads(pathlib.Path(path).read_text())["traceEvents"] if e["ph"] == "X"]
    return {(e["pid"], e["name"], e["args"]["impl"].startswith("systolic")) for e in done if e["args"]["kernel"]}


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
        both = losses(train(*self.small, *BESIDE, "--place", "gemm=home,cross_entropy=fallback", "--trace", path))
        self.assertEqual(len(both), 10)
        for step, (a, b) in enumerate(zip(alone, both)):
            self.assertAlmostEqual(a, b, delta=1e-5, msg=f"step {step}")
        ran = places(path)
        self.assertIn((1, "cross_entropy", False), ran)
        self.assertIn((0, "update", True), ran)
        self.assertTrue(all(bundled == (device == 0) for device, _, bundled in ran), ran)
        self.assertNotIn((0, "cross_entropy", True), ran)

    def test_resume_places_alike(self):
        """The cost of copies determines placement; a resumed training keeps it."""
        room, trace = pathlib.Path(self.room.name), os.path.join(self.room.name, "trace.json")
        cache, cheap = room / "cache", room / "cheap.json"
        cache.mkdir(mode=0o700)
        tuned = subprocess.run([CLADE, "tune", "mlp", "--batch", "4", "--pass", "infer", "--budget", "0.1", *BESIDE],
                               env=dict(os.environ, CLADE_CACHE_DIR=str(cache)), capture_output=True, text=True,
                               timeout=300, check=False)
        self.assertIn(tuned.returncode, (0, 1), tuned.stderr)  # 1: nothing of the work itself was measured in time
        links = [(file, r) for file in cache.glob("tuning-*.json") for d in json.loads(file.read_text())["devices"]
                 for r in d["records"] if r["op"] == "transfer"]
        self.assertEqual(sorted(r["problem"].split()[0] for _, r in links), ["u8[1048576]", "u8[4096]"])
        self.assertTrue(all(0 < r["seconds"] < 0.1 for _, r in links), links)
        records = json.loads(links[0][0].read_text())
        for r in records["devices"][0]["records"]:
            r["seconds"] = 1e-9
        cheap.write_text(json.dumps(records))

        def ran(*arguments, **env):
            result(train(*self.small, *BESIDE, "--trace", trace, "--trace-steps", "12:14", "--epochs", 2, *arguments,
                         env=env))
            return places(trace)
        folder = ["--checkpoint-dir", room / "kept"]
        usual, mixed = ran(), ran(CLADE_TUNING=str(cheap))
        self.assertEqual({device for device, _, _ in usual}, {0})
        self.assertEqual({device for device, _, _ in mixed}, {0, 1})
        result(train(*self.small, *BESIDE, *folder))
        self.assertEqual(ran(*folder, "--resume", CLADE_TUNING=str(cheap)), usual)
        other = train(*self.small, *BESIDE, *folder, "--epochs", 3, "--resume", "--place", "softmax=home")
        self.assertEqual(other.returncode, 1)
        self.assertIn('it was trained with place null, this training has "softmax=home"', other.stderr)

    def test_infer(self):
        home, away = (infer(*BESIDE, "--place", f"gemm=home,softmax={at}") for at in ("home", "fallback"))
        at = [{row["device"] for row in told["impls"] if row["op"] == "softmax"} for told in (home, away)]
        self.assertEqual(at, [{0}, {1}])
        self.assertEqual((away["bytes_to_fallback"], away["bytes_from_fallback"]), (8 * 10 * 4, 0))
        self.assertLessEqual(away["max_error"], away["error_bound"])

    def test_refusals(self):
        self.assertIn("there is no fallback device to be placed on", infer("--device", "emulated", "--place", "gemm=fallback"))
        self.assertIn('"gem=fallback": the graph computes no node', infer(*BESIDE, "--place", "gem=fallback"))
        done = train(*self.small, *BESIDE, "--place", "gemm=here")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("NAME=home or NAME=fallback is expected", done.stderr)


unittest.main(argv=sys.argv[:1])

"""`clade devices`: measurements are stored, shown, and close to those of `clade bench` at the same time."""

import os
import pathlib
import tempfile
import unittest

import clade
from clade import document, run

ATTEMPTS, FACTOR = 6, 1.5


class Speed(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.room = pathlib.Path(room.name) / "cache"
        self.env = {"CLADE_CACHE_DIR": str(self.room)}

    def device(self, *options, env=None):
        done = run("devices", "--json", *options, env=env or self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return document(done)["devices"][0]

    def test_measured_and_kept(self):
        before = self.device()
        self.assertEqual(before["obtained"]["bandwidth_gbps"], "class")
        self.assertIsNone(before["wait_us"])
        self.assertEqual(list(self.room.glob("tuning-*.json")), [])  # listing measures nothing
        measured = self.device("--measure")
        for name in ("bandwidth_gbps", "launch_us", "wait_us"):
            self.assertEqual(measured["obtained"][name], "measured")
            self.assertGreater(measured[name], 0)
        self.assertEqual(self.device(), measured)
        self.assertIn("(measured)", run("devices", env=self.env).stdout)
        file, = self.room.glob("tuning-*.json")
        file.write_text("{")
        self.assertEqual(self.device()["obtained"], before["obtained"])

    def test_without_a_cache(self):
        done = run("devices", "--measure", "--json", env={"CLADE_CACHE_DIR": "off"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no program cache keeps what was measured", done.stderr)

    def test_beside_bench(self):
        """Within a factor of 1.5, retried since other processes may disturb one of the two measurements."""
        told = []
        for _ in range(ATTEMPTS):
            here = self.device("--measure")
            bench = document(run("bench", "op", "--only", "relu", "--rounds", "1", "--json", env=self.env))["device"]
            ratios = (here["peak_gflops"]["f32"] / bench["peak_gflops"], here["bandwidth_gbps"] / bench["copy_gbs"])
            told.append(ratios)
            if all(1 / FACTOR <= ratio <= FACTOR for ratio in ratios):
                return
        self.fail(f"peaks and bandwidths, each over that of the bench: {told}; load {os.getloadavg()}")


if __name__ == "__main__":
    clade.main()

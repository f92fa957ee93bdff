"""Help, invalid usage, unknown devices, and the cache directory: exit statuses and output streams."""

import os
import subprocess
import tempfile
import unittest

import clade
from clade import document, run

COMMANDS = ["doctor", "devices", "infer", "bench", "plan", "tune", "pack", "cache"]


class Usage(unittest.TestCase):
    def wrong(self, *args):
        done = run(*args)
        self.assertEqual(done.returncode, 2, done)
        self.assertEqual(done.stdout, "")
        self.assertTrue(done.stderr)
        return done.stderr

    def test_help(self):
        listing = run("--help")
        self.assertEqual(listing.returncode, 0)
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", listing.stdout)
            done = run(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            for option in ["--help", "--device SPEC", "--json"]:
                self.assertIn(option, done.stdout)
        self.assertRegex(run("--version").stdout, r"^clade \d+\.\d+\.\d+(, built with .*)?\n$")

    def test_wrong_usage(self):
        self.wrong()
        self.assertIn("'zork'", self.wrong("zork"))
        self.assertIn("__child", self.wrong("__child"))
        for command in COMMANDS:
            self.assertIn("--zork", self.wrong(command, "--zork"))
            self.assertIn("needs a value", self.wrong(command, "--device"))
        for command in ["doctor", "devices"]:
            self.assertIn("'extra'", self.wrong(command, "extra"))
        self.wrong("cache")
        self.assertIn("'zork'", self.wrong("cache", "zork"))
        self.assertIn("'more'", self.wrong("cache", "path", "more"))

    def test_full_device(self):
        """Every command fails if its output cannot be written."""
        for args in [["--help"], ["--version"], ["devices"], ["devices", "--json"], ["devices", "--help"],
                     ["cache", "path"], ["cache", "path", "--json"], ["doctor"], ["doctor", "--json"],
                     ["infer", "--demo", "mlp"], ["infer", "--demo", "mlp", "--json"], ["bench", "--help"],
                     ["tune", "--help"], ["pack", "--help"]]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([clade.CLADE, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=300,
                                      check=False)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn("clade: cannot write to standard output", done.stderr)

    def test_older_names(self):
        """Old names are accepted, with a warning that contains the new one."""
        self.assertIn('"companion" is called "fallback" now', run("infer", "--demo", "mlp", "--companion", "zork").stderr)
        done = run("train", "--model", "mlp", "--data", "synthetic:64", "--augment", "normalise", "--companion", "zork")
        self.assertIn('"normalise" is called "normalize" now', done.stderr)
        done = run("devices", "--json", env={"CLADE_CHAINS": "0"})
        self.assertIn('"CLADE_CHAINS" is called "CLADE_PERSISTENT" now', done.stderr)
        self.assertNotIn("SLOW_WAKE", done.stdout)

    def test_wrong_usage_of_infer(self):
        self.assertIn("--demo", self.wrong("infer"))
        self.assertIn("zork", self.wrong("infer", "--demo", "zork"))
        self.assertIn("twice", self.wrong("infer", "--demo", "mlp", "--device", "0", "--device", "1"))
        self.assertIn("--explain=zork", self.wrong("infer", "--demo", "mlp", "--explain=zork"))
        for batch in ["0", "-1", "x", "1x", "", "99999999999999999999"]:
            self.assertIn("--batch", self.wrong("infer", "--demo", "mlp", "--batch", batch))
        self.assertIn("--seed", self.wrong("infer", "--demo", "mlp", "--seed", "-1"))

    def test_wrong_usage_of_tune(self):
        self.assertIn("512x512x512", self.wrong("tune"))
        for target in ["zork", "12x12", "0x1x1", "1x2x3x4", "1x2x99999999"]:
            self.assertIn(target, self.wrong("tune", target))
        self.assertIn("--mode", self.wrong("tune", "--mode", "fast", "mlp"))
        for word in ["mlp", "conv", "gemm", "12x12x12"]:
            self.assertIn("--pass", self.wrong("tune", "--pass", "both", word))
        for word in ["gemm", "12x12x12"]:
            self.assertIn("--batch", self.wrong("tune", "--batch", "8", word))
        self.assertIn("--set", self.wrong("tune", "gemm", "--set", "resnet50"))
        self.assertIn("--set", self.wrong("tune", "conv", "--set", "squares"))
        for option in ["--set", "--shapes", "--only"]:
            self.assertIn(option, self.wrong("tune", "12x12x12", option, "squares"))
        self.assertIn("--shapes", self.wrong("tune", "gemm", "--set", "squares", "--shapes", "file"))
        self.assertIn("--dtype", self.wrong("tune", "gemm", "--dtype", "f8"))
        self.assertIn("--dtype", self.wrong("tune", "conv", "--dtype", "i8"))
        self.assertIn("--dtype", self.wrong("tune", "mlp", "--dtype", "bf16"))
        for budget in ["0", "-1", "x", "nan", ""]:
            self.assertIn("--budget", self.wrong("tune", "--budget", budget, "mlp"))
        self.assertIn("FILE", self.wrong("tune", "export"))
        self.assertIn("FILE", self.wrong("tune", "merge"))

    def test_wrong_usage_of_bench_comm_and_scale(self):
        self.assertIn("mpirun -np 2", self.wrong("bench", "comm"))
        self.assertIn("--batch", self.wrong("bench", "comm", "--batch", "8"))
        self.assertIn("zork", self.wrong("bench", "comm", "--model", "zork"))
        self.assertIn("--model", self.wrong("bench", "scale", "--ranks", "8"))
        scale = ["bench", "scale", "--model", "mlp"]
        self.assertIn("--ranks", self.wrong(*scale))
        self.assertIn("28 x 28", self.wrong(*scale, "--ranks", "8", "--side", "32"))
        self.assertIn("'more'", self.wrong(*scale, "--ranks", "8", "more"))
        for ranks in ["0", "-1", "x", "8,", ",8", "8 9", "1048577", "", ",".join(["2"] * 17)]:
            self.assertIn("--ranks", self.wrong(*scale, "--ranks", ranks))
        for link in ["50", "50,", ",10", "50,10,1", "-1,10", "50,0", "nan,1", "1,inf", "x,y", ""]:
            self.assertIn("--link", self.wrong(*scale, "--ranks", "8", "--link", link))

    def test_unknown_device(self):
        candidate = document(run("devices", "--json"))["devices"][0]["name"]
        for args in [["devices"], ["infer", "--demo", "mlp"]]:
            for json in [[], ["--json"]]:
                done = run(*args, *json, "--device", "no such device")
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertRegex(done.stderr, r"^clade: [^\n]*no such device[^\n]*\n$")
                self.assertIn(candidate, done.stderr)
        done = run("infer", "--demo", "mlp", env={"CLADE_DEVICE": "no such device"})
        self.assertEqual(done.returncode, 1)
        self.assertIn(candidate, done.stderr)

    def test_ambiguous_device(self):
        every = document(run("devices", "--json"))["devices"]
        done = run("devices", "--device", "")
        if len(every) == 1:
            self.assertEqual(done.returncode, 0, done)  # everything matches, and there is only one device
        else:
            self.assertEqual(done.returncode, 1, done)
            for device in every:
                self.assertIn(device["name"], done.stderr)

    def test_chosen_devices(self):
        chosen = document(run("devices", "--json", "--device", "0", "--device", "0"))["devices"]
        self.assertEqual([device["id"] for device in chosen], ["0"])

    def test_output_that_cannot_be_written(self):
        done = run("devices", "--json", before=["sh", "-c", 'exec "$@" >/dev/full', "-"])
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


class Cache(unittest.TestCase):
    def test_path_follows_the_environment(self):
        unset = ["CLADE_CACHE_DIR", "XDG_CACHE_HOME"]
        self.assertEqual(run("cache", "path", env={"CLADE_CACHE_DIR": "/a b"}).stdout, "/a b\n")
        self.assertEqual(run("cache", "path", env={"XDG_CACHE_HOME": "/x"}, unset=unset[:1]).stdout, "/x/clade\n")
        self.assertEqual(run("cache", "path", env={"HOME": "/h"}, unset=unset).stdout, "/h/.cache/clade\n")
        self.assertEqual(document(run("cache", "path", "--json"))["path"], os.environ["CLADE_CACHE_DIR"])

    def test_clear(self):
        with tempfile.TemporaryDirectory() as room:
            env = {"CLADE_CACHE_DIR": room}
            self.assertEqual(run("infer", "--demo", "mlp", env=env).returncode, 0)
            with open(os.path.join(room, "someone's file"), "w", encoding="ascii"):
                pass
            held = len(os.listdir(room))
            self.assertGreater(held, 1)
            found = document(run("cache", "clear", "--json", env=env))
            self.assertEqual(found["path"], room)
            self.assertGreater(found["files"], 0)
            self.assertGreater(found["bytes"], 0)
            self.assertEqual(len(os.listdir(room)), held - found["files"])
            self.assertIn("someone's file", os.listdir(room))
            self.assertEqual(document(run("cache", "clear", "--json", env=env))["files"], 0)

    def test_clear_of_nothing(self):
        done = run("cache", "clear", env={"CLADE_CACHE_DIR": "/nonexistent/clade"})
        self.assertEqual(done.returncode, 0, done)
        self.assertFalse(os.path.exists("/nonexistent"))


if __name__ == "__main__":
    clade.main()

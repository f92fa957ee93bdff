"""Unit probes in a separate process: an implementation that aborts or hangs at inline assembly costs the unit, not the
process; results are cached; and programs that start children are not disturbed.

usage: apart.py CLADE ASK PROBE LAYER DIRECTORY_FROM_PROGRAMS [all]"""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from common import classes

CLADE = ASK = PROBE = LAYER = FROM_PROGRAMS = ""
ABORTED = "the probe's process was ended by signal 6 (Aborted)"
# Wraps the real program: records each start, and runs a test's commands first.
STARTER = '#!/bin/sh\necho "$3" >>{folder}/started\n{first}\nexec {probe} "$@"\n'


class Kit(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.folder = room.name
        self.cache = os.path.join(room.name, "cache")
        os.mkdir(self.cache, 0o700)
        os.mkdir(os.path.join(room.name, "bin"), 0o755)
        self.starter()

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def starter(self, first=":"):
        with open(self.path("bin", "clade-probe"), "w", encoding="utf-8") as f:
            f.write(STARTER.format(folder=self.folder, first=first, probe=PROBE))
        os.chmod(f.name, 0o755)

    def run_it(self, *command, how="abort", **env):
        whole = {**os.environ, "OPENCL_LAYERS": LAYER, "CLADE_ASM": how, "CLADE_ASM_LOG": self.path("log"),
                 "CLADE_CACHE_DIR": self.cache, "CLADE_PROBE_DIR": self.path("bin"), **env}
        done = subprocess.run(command, env=whole, capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done)
        self.assertNotIn("words", done.stdout + done.stderr)  # of the compiler, in its own process
        return done

    def ask(self, *words, **how):
        """The state of each unit by name, and the other output."""
        lines = self.run_it(ASK, *words, **how).stdout.splitlines()
        units = dict(line.split(": ", 1) if ": " in line else (line, "used") for line in lines[:4])
        self.assertEqual(list(units), ["vnni", "avx512_bf16", "amx_int8", "amx_bf16"])
        return units, lines[4:]

    def lines_of(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as f:
                return f.read().split()
        except FileNotFoundError:
            return []

    def started(self, unit="vnni"):
        return self.lines_of("started").count(unit)


class Apart(Kit):
    def test_abort_costs_the_unit(self):
        units, rest = self.ask()
        self.assertEqual((units["vnni"], units["avx512_bf16"]), (ABORTED, ABORTED))
        self.assertNotEqual(units["amx_int8"], "used")
        self.assertEqual(rest, ["0 descriptors more"])
        self.assertEqual([self.started(unit) for unit in units], [1, 1, 1, 1])
        self.assertGreaterEqual(self.lines_of("log").count("build"), 2)

    def test_answers_are_kept(self):
        first, _ = self.ask()
        second, _ = self.ask(how="imitate")
        self.assertEqual((second["vnni"], self.started()), (first["vnni"], 1))
        for path in glob.glob(self.path("cache", "*.unit")):
            with open(path, "r+b") as f:
                f.seek(80)
                f.write(b"X")
        third, _ = self.ask(how="imitate")
        self.assertEqual((third["vnni"], self.started()), ("used", 2))
        fourth, _ = self.ask()
        self.assertEqual((fourth["vnni"], self.started()), ("used", 2))
        self.ask("clear")
        self.assertEqual(self.started(), 3)

    def test_without_a_cache_once_a_process(self):
        for times in (1, 2):
            units, _ = self.ask("twice", CLADE_CACHE_DIR="off")
            self.assertEqual((units["vnni"], self.started()), (ABORTED, times))

    def test_the_cache_that_the_program_chose(self):
        own = self.path("own")
        for _ in range(2):
            self.ask(f"cache={own}")
        self.assertEqual((self.started(), glob.glob(self.path("cache", "*.unit"))), (1, []))
        self.assertTrue(glob.glob(os.path.join(own, "*.unit")))

    def test_what_computes_right_is_used(self):
        units, rest = self.ask(how="imitate")
        self.assertEqual((units["vnni"], units["avx512_bf16"] != "used", rest), ("used", True, ["0 descriptors more"]))

    def test_a_hang_is_ended(self):
        units, rest = self.ask(how="hang", CLADE_PROBE_SECONDS="3")
        self.assertEqual((units["vnni"], rest), ("the probe did not end within 3 s", ["0 descriptors more"]))
        units, _ = self.ask(CLADE_PROBE_SECONDS="3")
        self.assertEqual((units["vnni"], self.started()), ("the probe did not end within 3 s", 1))

    def test_programs_that_are_hard_on_children(self):
        for word in ("ignore", "reap", "closed"):
            units, rest = self.ask(word, CLADE_CACHE_DIR="off")
            self.assertEqual((units["vnni"], rest), (ABORTED, ["0 descriptors more"]), word)
        self.ask(self.path("marker"), CLADE_CACHE_DIR="off")
        self.ask(self.path("nothing"), CLADE_CACHE_DIR="off")
        self.assertEqual({*self.lines_of("log")}, {"build"})

    def test_threads_ask_at_once(self):
        units, rest = self.ask("parts")
        self.assertEqual((units["vnni"], rest, self.started()), (ABORTED, ["0 descriptors more"], 1))

    def test_processes_ask_at_once(self):
        env = {**os.environ, "OPENCL_LAYERS": LAYER, "CLADE_ASM": "abort", "CLADE_CACHE_DIR": self.cache,
               "CLADE_PROBE_DIR": self.path("bin")}
        all_of_them = [subprocess.Popen([ASK], env=env, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        said = [process.communicate(timeout=300)[0] for process in all_of_them]
        self.assertEqual((len({*said}), self.started(), self.started("avx512_bf16")), (1, 1, 1), said)

    def test_the_program_is_missing_or_not_ours(self):
        os.remove(self.path("bin", "clade-probe"))
        units, _ = self.ask()
        self.assertEqual({*units.values()},
                         {"not probed: clade-probe, which is installed with the library, is missing"})
        self.starter()
        for path in (self.path("bin", "clade-probe"), self.path("bin")):
            os.chmod(path, 0o777)
            units, _ = self.ask()
            self.assertIn(f"not probed: others may write to {path}", units["vnni"])
            os.chmod(path, 0o755)
        self.assertEqual((self.started(), glob.glob(self.path("cache", "*.unit"))), (0, []))
        units, _ = self.ask()
        self.assertEqual((units["vnni"], self.started()), (ABORTED, 1))

    def test_where_it_lies(self):
        """Beside the program that contains the library, unless a directory is given."""
        program = shutil.copy(ASK, self.path("bin", "program"))
        elsewhere = self.path("bin", "clade-probe")
        for place in (".", "clade", FROM_PROGRAMS):
            folder = os.path.normpath(self.path("bin", place))
            os.makedirs(folder, 0o755, exist_ok=True)
            os.rename(elsewhere, os.path.join(folder, "clade-probe"))
            elsewhere = os.path.join(folder, "clade-probe")
            before = self.started()
            done = self.run_it(program, CLADE_CACHE_DIR="off", CLADE_PROBE_DIR="")
            self.assertEqual((done.stdout.splitlines()[0], self.started()), (f"vnni: {ABORTED}", before + 1), place)

    def test_what_may_be_otherwise_next_time_is_not_kept(self):
        for first, reason in [("kill -9 $$", "ended without an answer"),
                              ('shift 4; set -- 0 0 vnni 0 "$1"', "is of another version of Clade"),
                              ('shift 2; set -- 00000000000000000000000000000000 0 "$@"', "the device is not among")]:
            self.starter(first)
            units, _ = self.ask()
            self.assertIn(reason, units["vnni"])
        self.assertEqual(glob.glob(self.path("cache", "*.unit")), [])

    def test_what_was_tried_needs_no_child(self):
        """With its real version, PoCL is probed in this process, which the layer keeps alive, if units' instructions
        are known to work with that version (table in src/cl/quirks.c)."""
        shown = self.run_it(CLADE, "devices", "--json", how="imitate", CLADE_ASM_TRIED="1", CLADE_CACHE_DIR="off")
        version = json.loads(shown.stdout)["devices"][0]["platform_version"]
        children = 0 if "PoCL 3.1" in version else 1
        before = self.started()
        units, _ = self.ask(how="imitate", CLADE_ASM_TRIED="1")
        self.assertEqual((units["vnni"], self.started() - before), ("used", children))
        self.assertIn("the probe kernel failed: ", units["avx512_bf16"])

    def test_the_command_goes_on(self):
        shown = self.run_it(CLADE, "devices")
        self.assertIn(f"matrix unit   vnni: {ABORTED}\n", shown.stdout)
        self.assertEqual(shown.stderr, "")
        units = json.loads(self.run_it(CLADE, "devices", "--json").stdout)["devices"][0]["units"]
        self.assertEqual(units[0], {"name": "vnni", "used": False, "reason": f"vnni: {ABORTED}"})
        self.assertIn("compiled", self.run_it(ASK, "compile").stdout)
        self.assertEqual((self.started("vnni"), self.started("assembly")), (1, 1))


class All(Kit):
    def test_a_training_goes_on(self):
        done = self.run_it(CLADE, "train", "--model", "mlp", "--epochs", "1", "--batch", "500", "--json")
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["event"], "done")


if __name__ == "__main__":
    CLADE, ASK, PROBE, LAYER, FROM_PROGRAMS = sys.argv[1:6]
    unittest.main(argv=sys.argv[:1] + classes(sys.argv[6:] == ["all"]), verbosity=2)

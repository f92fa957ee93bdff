"""The command in a build with CLADE_FPGA=OFF: errors about parts that are left out name the option."""

import unittest

import clade
from clade import run

OPTION = "-DCLADE_FPGA=ON"


class WithoutFpga(unittest.TestCase):
    def refused(self, *args, lines=1, env=None):
        done = run(*args, env=env)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done)
        self.assertEqual(done.stderr.count("\n"), lines, done.stderr)
        self.assertIn(OPTION, done.stderr)
        return done.stderr

    def test_version(self):
        self.assertRegex(run("--version").stdout, r"^clade \d+\.\d+\.\d+, built with CLADE_FPGA=OFF\n$")

    def test_pack(self):
        for words in ["build --target pocl --output x.bundle", "inspect x.bundle", "verify x.bundle --json", "zork", ""]:
            self.refused("pack", *words.split())
        self.assertIn(OPTION, run("pack", "--help").stdout)

    def test_emulated(self):
        """A note, since a vendor's emulator may match, and then the error that nothing does."""
        for spec in ["emulated", "Emulated:0", "fpga"]:
            self.assertIn("no device matches", self.refused("infer", "--demo", "mlp", "--device", spec, lines=2))
        self.assertIn("no device matches", self.refused("devices", "--device", "emulated", lines=2))
        self.refused("infer", "--demo", "mlp", lines=2, env={"CLADE_DEVICE": "emulated"})

    def test_compare(self):
        for spec in ["model:grid.json", "rtl:grid.json"]:
            self.assertIn(f"--device {spec}", self.refused("bench", "compare", "--device", spec))
        self.refused("bench", "compare", "--device", "pocl", "--device", "fpga", lines=2)


if __name__ == "__main__":
    clade.main()

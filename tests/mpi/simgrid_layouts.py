"""Predictions of `clade plan` for layouts against the same schedules on ranks simulated by SimGrid
(simulated_layout.py).
    simgrid_layouts.py CLADE LIBCLADE.A          4 and 8 ranks
    simgrid_layouts.py CLADE LIBCLADE.A long     a GPT of 1.3 G parameters on 64 ranks
"""
import json
import subprocess
import sys
import unittest

import simulated
import simulated_layout

SKIPPED = 77  # ctest's exit status for skipped tests
SMALL = "gpt:layers=4,width=256,heads=4,vocab=1000,length=128"
LARGE = "gpt:layers=24,width=2048,heads=16,vocab=50257,length=1024"


def plan(*args):
    """The whole document."""
    done = subprocess.run([sys.argv[1], "plan", *map(str, args), "--list", "100000", "--json"], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)


def kind(layout):
    return layout["data"], layout["tensor"], layout["pipeline"], layout["interleave"], layout["shard"]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.simulator = cls.enterClassContext(simulated_layout.Simulator(sys.argv[2]))

    def seconds(self, told, layout, tolerance):
        found = self.simulator.layout(layout, told["link"], told["ranks"])
        with self.subTest(layout=simulated_layout.name(layout)):
            self.assertLess(abs(layout["seconds"] / found - 1), tolerance, f"{layout['seconds']} predicted, {found} simulated")
        return found

    def compare(self, tolerance, *args):
        """Simulates the fastest layout of each kind; the proposal is within 15 % of the best."""
        told, kinds = plan(*args), {}
        for layout in told["layouts"]:
            kinds.setdefault(kind(layout), layout)
        found = [self.seconds(told, layout, tolerance) for layout in kinds.values()]
        self.assertGreater(len(found), 8)
        self.assertLess(found[0], 1.15 * min(found))


class All(Case):
    def test_four_ranks(self):
        self.compare(0.1, "--model", SMALL, "--ranks", 4, "--batch", 16, "--memory", 80, "--flops", 0.1, "--link", "20,25")

    def test_nodes(self):
        self.compare(0.1, "--model", SMALL, "--ranks", 8, "--batch", 32, "--memory", 80, "--flops", 0.2, "--link", "20,10",
                     "--node", 4, "--node-link", "5,200")

    def test_waits(self):
        """Slow messages affect the simulation: it does not merely repeat the model's figures."""
        told = plan("--model", SMALL, "--ranks", 2, "--batch", 8, "--memory", 80, "--flops", 0.1, "--link", "20,25")
        layout = next(one for one in told["layouts"] if one["pipeline"] == 2)
        before = self.simulator.layout(layout, told["link"], 2)
        for message in layout["messages"]:
            message["bytes"] *= 50
        self.assertGreater(self.simulator.layout(layout, told["link"], 2), 1.2 * before)


class Long(Case):
    def test_large(self):
        """1.3 G parameters on 64 ranks of 24 GB, eight per node."""
        for link in "20,25", "5,200":
            told = plan("--model", LARGE, "--ranks", 64, "--batch", 512, "--memory", 24, "--flops", 100, "--bandwidth", 1500,
                        "--link", link, "--node", 8, "--node-link", "5,200")
            self.seconds(told, told["layouts"][0], 0.15)


if __name__ == "__main__":
    if simulated.missing():
        print(f"skipped: there is no {simulated.missing()} (Debian: libsimgrid-dev)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], "Long" if sys.argv[3:] == ["long"] else "All"], verbosity=2)

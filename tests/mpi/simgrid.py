"""Predictions of `clade bench scale` against the same sums on ranks simulated by SimGrid (simulated.py).
    simgrid.py LIBCLADE.A          2 to 64 ranks
    simgrid.py LIBCLADE.A long     512
"""
import sys
import unittest

import simulated

SKIPPED = 77  # ctest's exit status for skipped tests
# ResNet-18 for 32 images of 32 x 32 on two cores: bytes, and when they are on the host.
RESNET18 = [(2_052_000, 0.115), (9_441_280, 0.128), (9_441_280, 0.155), (9_441_280, 0.178), (9_973_760, 0.248),
            (6_074_880, 0.393), (302_848, 0.436)]
LINKS = {"10 Gbit/s": (50e-6, 1.25e9), "25 Gbit/s": (20e-6, 3.125e9)}
POLL, ADD = 1e-4, 5e9
AT_ONCE = [(size, 0) for size, _ in RESNET18]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.simulator = cls.enterClassContext(simulated.Simulator(sys.argv[1]))

    def near(self, tolerance, *args, **options):
        found = self.simulator.step(*args, poll=POLL, add=ADD, **options)
        self.assertLess(abs(found["predicted_seconds"] / found["seconds"] - 1), tolerance, found)


class All(Case):
    def test_steps(self):
        for name, link in LINKS.items():
            for ranks in 2, 7, 8, 64:
                with self.subTest(link=name, ranks=ranks):
                    self.near(0.01, ranks, *link, RESNET18, rest=0.01)

    def test_sums(self):
        """4 bytes, which are exchanged whole, and 8 MiB."""
        for name, link in LINKS.items():
            for ranks in 2, 8, 64:
                for size, tolerance in (4, 0.15), (8 << 20, 0.07):
                    with self.subTest(link=name, ranks=ranks, size=size):
                        self.near(tolerance, ranks, *link, [(size, 0)])

    def test_bound_by_the_link(self):
        """All gradients are available at once."""
        for wire in 1, 0.5:
            for ranks in 2, 8, 64:
                with self.subTest(wire=wire, ranks=ranks):
                    self.near(0.12, ranks, *LINKS["10 Gbit/s"], AT_ONCE, wire=wire)

    def test_gradients_come_too_fast(self):
        """A device that is ten times as fast: sums overlap in different rounds."""
        fast = [(size, ready / 10) for size, ready in RESNET18]
        for ranks in 2, 8, 64:
            with self.subTest(ranks=ranks):
                self.near(0.05, ranks, *LINKS["10 Gbit/s"], fast, rest=0.001)

    def test_other_numbers(self):
        """Blocks of powers of two share links, which the model ignores."""
        for ranks in 3, 7:
            with self.subTest(ranks=ranks):
                self.near(0.25, ranks, *LINKS["10 Gbit/s"], AT_ONCE)

    def test_bytes(self):
        """The lower bound for 2^k ranks."""
        size = 8 << 20
        for ranks in 2, 64:
            found = self.simulator.step(ranks, *LINKS["10 Gbit/s"], [(size, 0)])
            self.assertEqual(found["sent_bytes"], 2 * (ranks - 1) * size)


class Long(Case):
    def test_512_ranks(self):
        for name, link in LINKS.items():
            with self.subTest(link=name):
                self.near(0.01, 512, *link, RESNET18, rest=0.01)


if __name__ == "__main__":
    if simulated.missing():
        print(f"skipped: there is no {simulated.missing()} (Debian: libsimgrid-dev)")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], "Long" if sys.argv[2:] == ["long"] else "All"], verbosity=2)

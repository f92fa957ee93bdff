"""clade bench compare: wrong usage, and one comparison whose document is taken at its word. A device is compared with
itself under another name, so that no one knows who wins: figures are looked at only beside each other. An emulated
accelerator, which a processor computes for, takes no part in answers."""

import os
import sys
import unittest

import clade
from clade import document, run
from documents import compare, tables

SIDES = {"pocl": "measured", "Portable": "measured", "emulated": "functional-only"}
RTL = os.path.join(os.path.dirname(sys.argv[1]), "libclade_emulated_rtl.so")
MEASURED = [side for side, evidence in SIDES.items() if evidence == "measured"]


class Compare(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        devices = [word for side in SIDES for word in ("--device", side)]
        cls.done = run("bench", "compare", "--quick", "--only", "lenet5", "--json", *devices)
        cls.found = document(cls.done)
        cls.rows = cls.found["rows"]

    def test_wrong_usage(self):
        for args, word in [(["more"], "more"), (["--answer", "who"], "who"), (["--only", "gemm,zork"], "zork")]:
            done = run("bench", "compare", *args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
            self.assertIn(word, done.stderr)
        for args, word in [(["none such"], "none such"), (["0", "0"], "twice"), (["model:none"], "none"),
                           (["model:" + __file__], "compare.py")]:
            done = run("bench", "compare", *(word for spec in args for word in ("--device", spec)))
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)

    def test_document(self):
        wrong = []
        compare(self.found, "", tables()["clade bench compare"], set(), wrong)
        self.assertEqual(wrong, [])

    def test_rows(self):
        works = {row["work"] for row in self.rows}
        self.assertEqual(len(self.rows), len(works) * len(SIDES))
        self.assertEqual({row["group"] for row in self.rows}, {"infer", "train"})
        for row in self.rows:
            self.assertIsNone(row["refused"], row)
            self.assertEqual(row["evidence"], SIDES[row["device"]])
            self.assertTrue(0 < row["low"] <= row["p50"] <= row["p99"] <= row["high"], row)
            self.assertTrue(row["low"] <= row["p50_least"] <= row["p50_most"] <= row["high"], row)
            self.assertGreaterEqual(row["calls"], 3)
            self.assertAlmostEqual(row["items_per_s"] * row["p50"], row["batch"], delta=1e-6 * row["batch"])
            self.assertAlmostEqual(row["gflops"] * 1e9 * row["p50"], row["flops"], delta=1e-6 * row["flops"])
            self.assertTrue(row["compute_seconds"] > 0 and row["transfer_seconds"] > 0 and row["other_seconds"] >= 0, row)
            self.assertTrue(0 <= row["max_error"] < 1e-3, row)

    def test_models(self):
        """Of devices that are not here: a range each, their evidence, and no device opened for it."""
        files = ["pipecnn-arria10", "t2sp-arria10", "rtl-ecp5"]
        folder = os.path.join(clade.ROOT, "fpga", "model", "devices")
        done = run("bench", "compare", "--json", *(word for name in files for word in
                   ("--device", f"model:{folder}/{name}.json")), env={"OCL_ICD_VENDORS": "/nowhere"})
        found, wrong = document(done), []
        compare(found, "", tables()["clade bench compare"], set(), wrong)
        self.assertEqual(wrong, [])
        self.assertEqual([device["spec"] for device in found["devices"]], ["model:" + name for name in files])
        for row in found["rows"]:
            self.assertTrue(row["evidence"].startswith("modelled("), row)
            self.assertTrue(row["calls"] == 0 and row["p99"] is None and row["max_error"] is None, row)
            self.assertTrue(0.5 < row["low"] / row["high"] < 0.56 and row["low"] < row["p50"] < row["high"], row)
            self.assertIn(row["bound"], ("compute", "memory"))
        for answer in found["answers"]:
            self.assertNotIn("rtl-ecp5", (answer["winner"], answer["second"]), "bytes do not compete with floats")
            if answer["winner"]:
                self.assertEqual(answer["text"].count("[modelled("), 2)

    @unittest.skipUnless(os.path.exists(RTL), "built without Verilator")
    def test_simulated(self):
        """Products of bytes by the simulated array: each row its cycles, by their formula, at the clock that was routed."""
        path = os.path.join(clade.ROOT, "fpga", "model", "devices", "rtl-ecp5.json")
        done = run("bench", "compare", "--quick", "--only", "i8", "--json", "--device", "pocl", "--device", "rtl:" + path)
        found, wrong = document(done), []
        compare(found, "", tables()["clade bench compare"], set(), wrong)
        self.assertEqual(wrong, [])
        self.assertEqual([device["evidence"] for device in found["devices"]], ["measured", "rtl-simulated"])
        rows = [row for row in found["rows"] if row["device"] == "rtl:rtl-ecp5"]
        self.assertEqual(len(found["rows"]), 2 * len(rows))
        for row, n in zip(rows, (64, 128, 256, 512), strict=True):
            self.assertEqual((row["work"], row["refused"]), (f"gemm i8 {n}x{n}x{n}", None))
            self.assertEqual((row["evidence"], row["dtype"], row["max_error"]), ("rtl-simulated", "i8", 0))
            cycles = (n // 8)**2 * n + 2 * 8 + 8 + 1 + 1  # T k + L + 1: docs/fpga.md
            self.assertEqual(row["cycles"], cycles)
            self.assertAlmostEqual(row["p50"], cycles / 66.8e6, delta=1e-8 * row["p50"])
            self.assertIsNone(row["transfer_seconds"])
            self.assertIn("rtl-simulated", next(line for line in done.stderr.splitlines()
                                                if line.startswith(row["work"]) and "rtl:" in line))
        for file, words in (("t2sp-arria10", "of kind array"), ("none", "none.json")):
            done = run("bench", "compare", "--device", f"rtl:{os.path.dirname(path)}/{file}.json")
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stderr)

    def test_what_works_need(self):
        by_name = {row["work"]: row for row in self.rows}
        layers = [(6, 28, 1, 5), (16, 10, 6, 5), (120, 1, 400, 1), (84, 1, 120, 1), (10, 1, 84, 1)]  # out, side, in, kernel
        flops = sum(2 * out * side**2 * channels * kernel**2 for out, side, channels, kernel in layers)
        row = by_name["lenet5 28x28 @8"]
        self.assertEqual((row["flops"], row["moved_bytes"]), (8 * flops, 8 * 4 * (28**2 + 10)))

    def test_answers(self):
        asked = {(answer["question"], answer["work"]) for answer in self.found["answers"]}
        self.assertEqual(asked, {("latency at batch 1", "lenet5 28x28 @1"), ("throughput", "lenet5 infer"),
                                 ("throughput", "lenet5 train"), ("energy per image", "lenet5 infer"),
                                 ("energy per image", "lenet5 train")})
        for answer in self.found["answers"]:
            if answer["question"] == "energy per image" and answer["winner"] is None:
                continue
            rows = [row for row in self.rows if row["work"] == answer["work"] or
                    f"{row['model']} {row['group']}" == answer["work"]]
            self.assertIn("functional-only devices take no part", answer["text"])
            best = {side: min(row["p50"] / row["batch"] for row in rows if row["device"] == side) for side in MEASURED}
            if answer["question"] != "energy per image":
                self.assertEqual(answer["winner"], min(best, key=best.get))
                self.assertAlmostEqual(answer["ratio"], max(best.values()) / min(best.values()), places=6)
            self.assertTrue(answer["least"] <= answer["ratio"] <= answer["most"], answer)
            sure = "sure" if answer["least"] > 1.1 else "likely" if answer["least"] > 1 else "open"
            self.assertEqual(answer["sure"], sure)
            self.assertIn(answer["text"], self.done.stderr)


if __name__ == "__main__":
    clade.main()

"""clade bench compare: invalid usage, and the consistency of one comparison. A device is compared with itself under
another name, so that there is no expected winner: figures are only checked against each other. An emulated accelerator,
computed by a CPU, is excluded from the answers."""

import json
import os
import struct
import sys
import tempfile
import unittest

import clade
from clade import document, run
from documents import compare, tables

SIDES = {"pocl": "measured", "Portable": "measured", "emulated": "functional-only"}
RTL = os.path.join(os.path.dirname(sys.argv[1]), "libclade_emulated_rtl.so")
MEASURED = [side for side, evidence in SIDES.items() if evidence == "measured"]


def cycles_of(m, n, k):
    """Cycles of the simulated 8 x 8 array (docs/fpga.md, Cycles)."""
    longest, tiles = 2 * 8 + 8 + 1, -(-m // 8) * -(-n // 8)
    return (tiles - 1) * max(k, longest) + k + longest + 1


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
            self.assertEqual(row["fallback"] is not None, row["dtype"] == "i8" and row["device"] == "emulated", row)
            self.assertEqual(row["bundle_evidence"], "none" if row["device"] == "emulated" else None)
            if row["group"] == "train":
                self.assertIsNone(row["accuracy"])
            else:
                self.assertEqual(row["dtype"], "i8" if row["model"] == "lenet5 i8" else "f32")
                self.assertGreater(row["accuracy"], 0.9)
            if row["dtype"] == "i8":
                self.assertEqual(row["max_error"], 0)

    def test_accuracy(self):
        """The accuracy in 8 bits is within one point of f32, and equal on all devices."""
        right = {model: {row["accuracy"] for row in self.rows if row["model"] == model and row["group"] == "infer"}
                 for model in ("lenet5", "lenet5 i8")}
        self.assertEqual([len(right[model]) for model in right], [1, 1], right)
        self.assertLessEqual(abs(right["lenet5"].pop() - right["lenet5 i8"].pop()), 0.01 + 1e-9)

    def test_models(self):
        """Modeled devices: a range and evidence for each, and no device is opened."""
        files = ["pipecnn-arria10", "t2sp-arria10", "rtl-ecp5"]
        folder = os.path.join(clade.ROOT, "fpga", "model", "devices")
        done = run("bench", "compare", "--json", *(word for name in files for word in
                   ("--device", f"model:{folder}/{name}.json")), env={"OCL_ICD_VENDORS": "/nowhere"})
        found, wrong = document(done), []
        compare(found, "", tables()["clade bench compare"], set(), wrong)
        self.assertEqual(wrong, [])
        self.assertEqual([device["spec"] for device in found["devices"]], ["model:" + name for name in files])
        for row in found["rows"]:
            self.assertTrue(row["evidence"].startswith("modeled("), row)
            self.assertTrue(row["calls"] == 0 and row["p99"] is None and row["max_error"] is None, row)
            self.assertTrue(0.5 < row["low"] / row["high"] < 0.56 and row["low"] < row["p50"] < row["high"], row)
            self.assertIn(row["bound"], ("compute", "memory"))
        for answer in found["answers"]:
            self.assertNotIn("rtl-ecp5", (answer["winner"], answer["second"]), "bytes do not compete with floats")
            if answer["winner"]:
                self.assertEqual(answer["text"].count("[modeled("), 2)

    def bundle(self, room, evidence, manifest, binary=b""):
        """A bundle with this evidence for its kernels."""
        for kernel in manifest["kernels"]:
            kernel["evidence"] = evidence
        paths = [os.path.join(room, name) for name in ("manifest.json", "binary", f"{evidence}.bundle")]
        for path, data in zip(paths, (json.dumps(manifest).encode(), binary)):
            with open(path, "wb") as f:
                f.write(data)
        done = run("pack", "build", "--manifest", paths[0], "--binary", paths[1], "--output", paths[2])
        return paths[2], done

    def test_what_a_bundle_says(self):
        """A bundle's evidence is reported but not used as a tag; nothing that a CPU computes may count as hardware."""
        with open(os.environ["CLADE_BUNDLE_PATH"], "rb") as f:
            data = f.read()
        size, begin, n = struct.unpack_from("<3Q", data, 16)  # docs/fpga.md, The file
        manifest, binary = json.loads(data[256:256 + size]), data[begin:begin + n]
        with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as room:
            _, done = self.bundle(room, "hardware", manifest, binary)
            self.assertEqual(done.returncode, 1)
            self.assertIn("evidence is hardware; for a target of kind pocl none or simulated is expected", done.stderr)
            path, done = self.bundle(room, "simulated", manifest, binary)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = run("bench", "compare", "--quick", "--only", "train", "--json", "--device", "emulated",
                       env={"CLADE_BUNDLE_PATH": path})
            found = document(done)
            for one in found["devices"] + found["rows"]:
                self.assertEqual((one["evidence"], one["bundle_evidence"]), ("functional-only", "simulated"))
            line = next(line for line in done.stderr.splitlines() if line.startswith(found["rows"][0]["work"]))
            self.assertEqual(line.split()[-2:], ["simulated", "functional-only"])

    def test_what_a_modeled_bundle_says(self):
        report = {"fmax_mhz": {"value": 35.2, "source": "routed"}, "bandwidth_gbs": {"value": 0.001, "source": "estimate"}}
        manifest = {"format": 1, "interface": 1, "target": {"kind": "ice40", "device": "up5k"},
                    "tool": {"name": "a tool", "version": "1", "command": "none"}, "source": {"sha256": "0" * 64},
                    "defines": {"ROWS": "2", "COLS": "4", "LOG_DEPTH": "8"},
                    "binary": {"format": "bitstream", "file": "array.bin", "bytes": 4},
                    "kernels": [{"name": "clade_array", "arguments": [], "work_group": [1, 1, 1], "compute_units": 1,
                                 "report": report}]}
        with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as room:
            for evidence in ("none", "simulated", "hardware"):
                path, done = self.bundle(room, evidence, manifest, b"bits")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"evidence: {evidence}", run("pack", "inspect", path).stdout)
                found = document(run("bench", "compare", "--json", "--only", "i8", "--device", f"model:{path}"))
                for one in found["devices"] + found["rows"]:
                    self.assertEqual((one["evidence"], one["bundle_evidence"]), ("modeled(routed)", evidence))

    @unittest.skipUnless(os.path.exists(RTL), "built without Verilator")
    def test_simulated(self):
        """Products of bytes on the simulated array: the cycles of each row follow the formula, at the routed clock."""
        path = os.path.join(clade.ROOT, "fpga", "model", "devices", "rtl-ecp5.json")
        done = run("bench", "compare", "--quick", "--only", "i8", "--json", "--device", "pocl", "--device", "rtl:" + path)
        found, wrong = document(done), []
        compare(found, "", tables()["clade bench compare"], set(), wrong)
        self.assertEqual(wrong, [])
        self.assertEqual([device["evidence"] for device in found["devices"]], ["measured", "rtl-simulated"])
        rows = [row for row in found["rows"] if row["device"] == "rtl:rtl-ecp5"]
        self.assertEqual(len(found["rows"]), 2 * len(rows))
        with open(path, encoding="utf-8") as f:
            clock = json.load(f)["fmax_mhz"]["value"] * 1e6
        works = {f"gemm i8 {n}x{n}x{n}": [(n, n, n)] for n in (64, 128, 256, 512)}
        works |= {f"lenet5 i8 28x28 @{b}": [(6, 784 * b, 25), (16, 100 * b, 150), (120, b, 400), (84, b, 120), (10, b, 84)]
                  for b in (1, 64)}
        for row, (work, products) in zip(rows, works.items(), strict=True):
            self.assertEqual((row["work"], row["refused"]), (work, None))
            self.assertEqual((row["evidence"], row["dtype"], row["max_error"]), ("rtl-simulated", "i8", 0))
            cycles = sum(cycles_of(m, n, k) for m, n, k in products)
            self.assertEqual(row["cycles"], cycles)
            self.assertAlmostEqual(row["p50"], cycles / clock, delta=1e-8 * row["p50"])
            self.assertIsNone(row["transfer_seconds"])
            self.assertEqual(row["fallback"] is not None, row["model"] == "lenet5 i8")
            mine = next(line for line in done.stderr.splitlines() if line.startswith(row["work"]) and "rtl:" in line)
            self.assertIn("rtl-simulated", mine)
            beside = next(one for one in found["rows"] if one["work"] == work and one["device"] == "pocl")
            self.assertEqual(row["accuracy"], beside["accuracy"])
        for answer in found["answers"]:  # excludes what the simulated device's fallback computes
            self.assertIsNone(answer["winner"], answer)
            self.assertIn("fallback devices are not counted" if "energy" not in answer["question"] else "", answer["text"])
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
        works = {"lenet5 infer", "lenet5 i8 infer", "lenet5 train"}
        self.assertEqual(asked, {("latency at batch 1", f"lenet5{of} 28x28 @1") for of in ("", " i8")} |
                         {(question, work) for question in ("throughput", "energy per image") for work in works})
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

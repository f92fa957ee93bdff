"""clade bench compare --quick of PoCL and the emulated accelerator: a report within two minutes, each row with its tag.
PoCL's compiler takes most of the time, so the limit grows on slower machines (tests/system/yardstick.py)."""

import os
import pathlib
import sys
import time
import unittest

import clade
from clade import document, run

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "system"))
from yardstick import limits

EVIDENCE = {"pocl": "measured", "emulated": "functional-only"}
if os.path.exists(os.path.join(os.path.dirname(sys.argv[1]), "libclade_emulated_rtl.so")):
    EVIDENCE["rtl:rtl-ecp5"] = "rtl-simulated"
DEVICES = [spec.replace("rtl:rtl-ecp5", f"rtl:{sys.argv[2]}/fpga/model/devices/rtl-ecp5.json") for spec in EVIDENCE]


class Quick(unittest.TestCase):
    def test_report(self):
        page = os.path.join(os.environ["HOME"], "report.html")
        limit = next(limits(120, tries=1))
        start = time.monotonic()
        done = run("bench", "compare", "--quick", "--json", "--html", page, *(word for spec in DEVICES for word in ("--device", spec)))
        seconds = time.monotonic() - start
        print(f"{seconds:.0f} s (limit {limit:.0f})")
        self.assertLessEqual(seconds, limit)
        found = document(done)
        self.assertEqual({d["spec"]: d["evidence"] for d in found["devices"]}, EVIDENCE)
        self.assertIsNotNone(found["devices"][1]["why"])
        works = {row["work"] for row in found["rows"]}
        self.assertLessEqual({f"gemm{of} {n}x{n}x{n}" for n in (64, 128, 256, 512) for of in ("", " i8")} |
                             {"lenet5 28x28 @1", "lenet5 i8 28x28 @1", "lenet5 i8 28x28 @64", "resnet18 32x32 @1"}, works)
        self.assertEqual({(row["work"], row["device"]) for row in found["rows"]},
                         {(work, device) for work in works for device in EVIDENCE
                          if " i8 " in work or not device.startswith("rtl:")})
        for row in found["rows"]:
            self.assertIsNone(row["refused"], row)
            self.assertEqual(row["evidence"], EVIDENCE[row["device"]])
            self.assertTrue(0 < row["low"] <= row["p50"] <= row["high"], row)
        for answer in found["answers"]:
            self.assertIsNone(answer["winner"], answer)
        lines = [line for line in done.stderr.splitlines() if line.split("  ")[0] in works]
        self.assertEqual(sorted(line.split()[-1] for line in lines), sorted(row["evidence"] for row in found["rows"]))
        with open(page, encoding="utf-8") as f:
            text = f.read()
        for tag in EVIDENCE.values():
            self.assertIn(tag, text)


if __name__ == "__main__":
    clade.main()

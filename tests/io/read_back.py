"""Reads Clade's files with the strict readers of formats.py. read_back.py TELL"""

import csv
import glob
import hashlib
import io
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import formats

TELL = ""
HASH = ""
ROOM = None


def path(*parts):
    return os.path.join(ROOM.name, *parts)


def read(*parts):
    with open(path(*parts), "rb") as f:
        return f.read()


def shapes(weights_only=False):
    all_of_them = {"z.weight": ("F32", [3, 4]), "a.weight": ("F32", [5]), "half": ("F16", [2, 3]), "brain": ("BF16", [3]),
                   "count": ("I64", []), "small": ("I8", [3]), "bytes": ("U8", [300]), "whole": ("I32", [1, 2, 3]),
                   "truth": ("BOOL", [3]), "none": ("F32", [0, 3]), "optimizer.m/z.weight": ("F32", [3, 4])}
    if weights_only:
        del all_of_them["optimizer.m/z.weight"]
    return all_of_them


def expected(name):
    """The bytes that tell.c writes to a variable."""
    dtype, shape = shapes()[name]
    number = list(shapes()).index(name)
    values = [(i + number) % 256 / 2 for i in range(math.prod(shape))]
    if dtype == "BOOL":
        return bytes(i % 2 for i in range(len(values)))
    if dtype == "BF16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    code = {"F32": "f", "F16": "e", "I64": "q", "I32": "i", "I8": "b", "U8": "B"}[dtype]
    return struct.pack(f"<{len(values)}{code}", *(v if code in "fe" else int(v) for v in values))


class ReadBack(unittest.TestCase):
    def check_tensors(self, data, weights_only=False):
        tensors, metadata = formats.safetensors(data)
        self.assertEqual({n: (t[0], t[1]) for n, t in tensors.items()}, shapes(weights_only))
        for name, (_, _, body) in tensors.items():
            self.assertEqual(body, expected(name), name)
            self.assertRegex(metadata.pop(f"clade.xxh3:{name}"), "^[0-9a-f]{32}$")
        self.assertRegex(metadata.pop("clade.check"), "^[0-9a-f]{32}$")
        self.assertEqual(metadata.pop("clade.format"), "1")
        return metadata

    def test_variables(self):
        self.assertEqual(self.check_tensors(read("all.safetensors")), {})
        self.assertEqual(self.check_tensors(read("weights.safetensors"), True), {})

    def test_hash(self):
        self.assertEqual(HASH, hashlib.sha256(b"".join(map(expected, ["a.weight", "half", "z.weight"]))).hexdigest())

    def test_checkpoints(self):
        names = [f"step-{step:010}.safetensors" for step in (3, 4, 5)]
        self.assertEqual(sorted(os.listdir(path("checkpoints"))), ["best.safetensors", "lock", *names])
        for name, step in [*zip(names, "345"), ("best.safetensors", "2")]:
            metadata = self.check_tensors(read("checkpoints", name))
            self.assertEqual(metadata, {"clade.step": step, "clade.text": '{"ü": [1, "\\n"]}'})

    def event_files(self):
        files = sorted(glob.glob(path("logs", "events.out.tfevents.*")), key=lambda f: (len(f), f))
        self.assertEqual(len(files), 2)
        return [formats.events(read("logs", os.path.basename(f))) for f in files]

    def test_events(self):
        first, second = self.event_files()
        self.assertEqual([e["session_log"] for e in (first[1], second[1])], [{"status": 1}] * 2)
        self.assertEqual([e["step"] for e in (first[1], second[1])], [0, 10])
        for step, event in enumerate(first[2:]):
            self.assertEqual(event["step"], step)
            self.assertEqual(event["summary"]["value"]["tag"], "loss")
            self.assertAlmostEqual(event["summary"]["value"]["simple_value"], 1 / (step + 1), places=6)
        self.assertEqual(len(first), 22)
        for step, event in enumerate(second[2:292], 10):
            self.assertEqual(event["step"], step)
            self.assertAlmostEqual(event["summary"]["value"]["simple_value"], 2 / (step + 1), places=6)
        self.assertEqual(second[292]["summary"]["value"]["tag"], 'odd,"tag"')
        self.assertTrue(math.isnan(second[292]["summary"]["value"]["simple_value"]))
        times = [event["wall_time"] for event in first + second]
        self.assertEqual(times, sorted(times))

    def test_histograms(self):
        values = [(i * i % 1009) / 64 - 3 for i in range(1000) if i not in (17, 18)]
        whole, one, none = (e["summary"]["value"] for e in self.event_files()[1][293:])
        self.assertEqual([h["tag"] for h in (whole, one, none)], ["weights/z", "weights/one", "weights/none"])
        h = whole["histo"]
        self.assertEqual((h["min"], h["max"], h["num"]), (min(values), max(values), len(values)))
        self.assertAlmostEqual(h["sum"], sum(values))
        self.assertAlmostEqual(h["sum_squares"], sum(v * v for v in values))
        self.assertEqual(h["bucket_limit"], sorted(h["bucket_limit"]))
        self.assertEqual(h["bucket_limit"][-1], h["max"])
        self.assertEqual(len(h["bucket"]), len(h["bucket_limit"]))
        below = 0.0
        for limit, count in zip(h["bucket_limit"], h["bucket"]):
            below += count
            self.assertLessEqual(sum(v < limit - 1e-9 for v in values), below)
            self.assertGreaterEqual(sum(v <= limit + 1e-9 for v in values), below)
        self.assertEqual(sum(h["bucket"]), len(values))
        self.assertEqual((one["histo"]["num"], sum(one["histo"]["bucket"]), one["histo"]["min"]), (1, 1, -3))
        self.assertEqual((none["histo"]["num"], sum(none["histo"]["bucket"])), (0, 0))

    def test_table(self):
        rows = list(csv.reader(io.StringIO(read("logs", "scalars.csv").decode("utf-8"))))
        self.assertEqual(rows[0], ["time", "step", "tag", "value"])
        self.assertEqual([int(row[1]) for row in rows[1:]], list(range(301)))
        for row in rows[1:-1]:
            step = int(row[1])
            self.assertEqual(row[2], "loss")
            self.assertAlmostEqual(float(row[3]), (1 if step < 10 else 2) / (step + 1), places=8)
        self.assertEqual(rows[-1][2], 'odd,"tag"')
        self.assertTrue(math.isnan(float(rows[-1][3])))


if __name__ == "__main__":
    TELL = sys.argv.pop(1)
    ROOM = tempfile.TemporaryDirectory()
    HASH = subprocess.run([TELL, ROOM.name], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    unittest.main(verbosity=2)

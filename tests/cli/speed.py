"""Clade's speed relative to other libraries: a few works of each kind, run alternately, must reach 0.6 of the target
for CPUs with AVX-512, together and individually. Failures are measured again. The test does not apply to other CPUs;
CLADE_SPEED=1 runs it anyway, CLADE_SPEED=FLOOR with another factor than 0.6. It ends within 90 seconds: works without
time left are reported, and the test counts as skipped, unless something was too slow twice, or once without time for a
second measurement, since a general slowdown uses up that time."""

import math
import os
import subprocess
import tempfile
import time
import unittest

import clade
from clade import document, run

FLOOR = 0.6
SECONDS, GROUP_SECONDS = 85, 30
SQUARES = "512 m=512 n=512 k=512\n1024 m=1024 n=1024 k=1024\n"
SMALL = "64 m=64 n=64 k=64\n128 m=128 n=128 k=128\n256 m=256 n=256 k=256\n"
NETWORKS = "fc@1 m=1 n=1000 k=2048 trans_b frozen_b\nfc@8 m=8 n=3072 k=768 trans_b frozen_b\n" \
           "fc@64 m=64 n=1000 k=2048 trans_b frozen_b\nscores m=128 n=128 k=64 batch=12 trans_b\nodd m=333 n=777 k=555\n"
FROZEN = "fc@64 m=64 n=3072 k=768 trans_b frozen_b\n1024 m=1024 n=1024 k=1024 frozen_b\n"
LAYERS = "3x3 c=64 h=56 w=56 out=64 kernel=3 pad=1\n1x1 c=256 h=14 w=14 out=1024 kernel=1\n" \
         "strided c=128 h=56 w=56 out=128 kernel=3 stride=2 pad=1\n"
OPS = "relu n=16 c=64 h=128 w=128\nadd n=16 c=64 h=128 w=128\nmax_pool n=16 c=64 h=128 w=128\nsoftmax h=16384 w=1024\n" \
      "layer_norm h=16384 w=1024\ntranspose h=4096 w=4096\n"
MODELS = "resnet50@1 batch=1 channels=3 side=224 classes=1000\nlenet5@128 batch=128 channels=1 side=28 classes=10 train\n"
# Commands; the target by peer: the geometric mean of the ratios, and optionally the minimum; and requirements other
# than 512-bit vectors.
GROUPS = [
    ("squares", "gemm", SQUARES, ["--peer", "openblas"], {"openblas": (1.0, 0.95)}, ""),
    ("small", "gemm", SMALL, ["--peer", "openblas", "--chain", "10"], {"openblas": ((0.45 * 0.75 * 0.95) ** (1 / 3), 0.45)}, ""),
    ("networks", "gemm", NETWORKS, ["--peer", "openblas", "--chain", "10"], {"openblas": (1.1, 0.8)}, ""),
    ("bytes", "gemm", FROZEN, ["--peer", "onednn", "--chain", "10", "--dtype", "i8"], {"onednn": (1.0, 0)}, "avx512_vnni"),
    ("bf16", "gemm", FROZEN, ["--peer", "onednn", "--chain", "10", "--dtype", "bf16"], {"onednn": (1.0, 0)}, "avx512_bf16"),
    ("fwd", "conv", LAYERS, ["--pass", "fwd", "--peers"], {"onednn": (0.97, 0), "onednn_nchw": (1.1, 0.7)}, ""),
    ("bwd-data", "conv", LAYERS, ["--pass", "bwd-data", "--peers"], {"onednn": (0.97, 0), "onednn_nchw": (1.1, 0.7)}, ""),
    ("bwd-weights", "conv", LAYERS, ["--pass", "bwd-weights", "--peers"], {"onednn": (0.97, 0), "onednn_nchw": (1.1, 0.7)}, ""),
    ("64 MiB", "op", OPS, [], {"copy": (0.9, 0)}, ""),
    ("beside CLBlast", "gemm", "512 m=512 n=512 k=512\n", ["--peer", "clblast"], {"clblast": (5, 0)}, ""),
    ("whole", "model", MODELS, ["--peer", "onednn"], {"onednn": (1.0, 0)}, ""),
]


def processor_has(flag):
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return flag in file.read().split()


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


class Speed(unittest.TestCase):
    def measure(self, group, room, before=()):
        """What was too slow, as text; without time for a measurement, the previous finding."""
        name, what, shapes, args, wanted, _ = group
        path = os.path.join(room, "shapes")
        with open(path, "w", encoding="utf-8") as file:
            file.write(shapes)
        begin = time.monotonic()
        left = min(GROUP_SECONDS, self.end - begin)
        try:
            done = run("bench", what, "--shapes", path, "--rounds", "3", "--json", *args, timeout=max(left, 0))
        except subprocess.TimeoutExpired:
            if left == GROUP_SECONDS:
                return [f"{what} {name}: not done in {GROUP_SECONDS} s"]
            self.missing.append(f"{what} {name}: no time was left")
            return [f"{text}; no time was left to measure it again" for text in before]
        self.assertEqual(done.returncode, 0, done.stderr)
        slow = []
        for peer, (want, least) in wanted.items():
            ratios = [row["peers"][peer]["ratio"] for row in document(done)["rows"] if peer in row["peers"]]
            if not ratios:
                self.missing.append(done.stderr)
                continue
            text = f"{what} {name}: {mean(ratios):.2f} of {peer}, {want:.2f} is wanted"
            text += f"; the least {min(ratios):.2f}, {least:.2f} is wanted" if least else ""
            print(f"{text}; {time.monotonic() - begin:.0f} s", flush=True)
            if mean(ratios) < self.floor * want or min(ratios) < self.floor * least:
                slow.append(text)
        return slow

    def test_floor(self):
        asked = os.environ.get("CLADE_SPEED")
        if not processor_has("avx512f") and not asked:
            self.skipTest("this CPU has no AVX-512: the floor is set for those that have (CLADE_SPEED=1 runs it here)")
        self.floor = float(asked) if asked and asked != "1" else FLOOR
        self.missing, self.end = [], time.monotonic() + SECONDS
        with tempfile.TemporaryDirectory() as room:
            groups = [group for group in GROUPS if not group[-1] or processor_has(group[-1])]
            first = [(group, self.measure(group, room)) for group in groups]
            slow = [text for group, before in first if before for text in self.measure(group, room, before)]
        self.assertEqual(slow, [], f"below {self.floor} of what is wanted")
        if self.missing:
            self.skipTest("\n".join(self.missing))


if __name__ == "__main__":
    clade.main()

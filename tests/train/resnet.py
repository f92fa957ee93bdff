"""ResNet-18's first step on empty caches: 32 images of 3x32x32.

    resnet.py CLADE LIMIT
"""
import pathlib
import random
import struct
import sys
import tempfile

from common import result, train
from images import npy

limit = float(sys.argv[2])
random.seed(3)
with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
    for part, count in (("train", 64), ("test", 32)):
        npy(f"{room}/x_{part}.npy", "|u1", (count, 3, 32, 32), random.randbytes(count * 3 * 32 * 32))
        npy(f"{room}/y_{part}.npy", "<i4", (count,), b"".join(struct.pack("<i", i % 10) for i in range(count)))
    empty = {}
    for name in ("CLADE_CACHE_DIR", "POCL_CACHE_DIR"):
        pathlib.Path(room, name).mkdir(mode=0o700)
        empty[name] = str(pathlib.Path(room, name))
    options = ["--model", "resnet18", "--data", f"npy:{room}", "--batch", 32, "--epochs", 1]
    cold = result(train(*options, env=empty))
    warm = result(train(*options, env=empty))
print(f"first step after {cold['first_step_seconds']:.2f} s on empty caches (limit {limit} s), after "
      f"{warm['first_step_seconds']:.2f} s on full ones; {warm['images_per_s']:.1f} images/s")
assert cold["weights_sha256"] == warm["weights_sha256"]
sys.exit(0 if cold["first_step_seconds"] <= limit else 1)

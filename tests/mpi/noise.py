"""Images of noise, for trainings that are timed or compared but need not learn."""
import os
import random
import struct


def noise(folder, training, testing):
    """32 x 32 color images in ten classes."""
    source = random.Random(1)
    for part, count in ("train", training), ("test", testing):
        for name, shape in ("x", (count, 3, 32, 32)), ("y", (count,)):
            head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
            head += b" " * (-(len(head) + 11) % 64) + b"\n"
            values = source.randbytes(count * 3072) if name == "x" else bytes(source.randrange(10) for _ in range(count))
            with open(os.path.join(folder, f"{name}_{part}.npy"), "wb") as file:
                file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + values)

"""Small image sets for the training tests."""
import pathlib
import random
import struct


def npy(path, dtype, shape, data):
    """Writes a file in NPY format, version 1.0."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}".encode()
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    pathlib.Path(path).write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)


def images(folder, train=320, test=100, classes=4, side=8):
    """Noise with a bright quadrant, whose position is the label. Learned in a few steps."""
    random.seed(5)
    half = side // 2
    for part, count in (("train", train), ("test", test)):
        x, y = bytearray(), bytearray()
        for i in range(count):
            label = i % classes
            for row in range(side):
                for column in range(side):
                    bright = (row >= half) == (label >= 2) and (column >= half) == (label % 2 == 1)
                    x.append(random.randrange(100) + (90 if bright else 0))
            y += struct.pack("<i", label)
        npy(f"{folder}/x_{part}.npy", "|u1", (count, 1, side, side), bytes(x))
        npy(f"{folder}/y_{part}.npy", "<i4", (count,), bytes(y))
    return f"npy:{folder}"

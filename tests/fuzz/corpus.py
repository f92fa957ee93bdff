"""Creates seeds for the fuzzer: a directory of small files per format. corpus.py TELL BUNDLES DEVICES FOLDER"""

import gzip
import os
import shutil
import struct
import subprocess
import sys
import tempfile


def npy(version, descr, fortran, shape, data):
    text = f"{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + data


def idx(kind, sizes, data):
    return bytes([0, 0, kind, len(sizes)]) + b"".join(struct.pack(">I", s) for s in sizes) + data


def safetensors(header, data=b""):
    return struct.pack("<Q", len(header)) + header.encode() + data


WEIGHT = '"w":{"dtype":"F32","shape":[3,4],"data_offsets":[0,48]}'
STEP = '"optimizer.step":{"dtype":"I64","shape":[],"data_offsets":[48,56]}'
EMPTY = '{"__metadata__":{"clade.check":"' + "0" * 32 + '","clade.format":"1","clade.step":"12","clade.text":"{}"}}'
SEEDS = {
    "npy": [npy(1, "<f4", False, "(2, 3)", bytes(24)), npy(2, "<f8", True, "(2, 3)", bytes(48)),
            npy(3, ">i2", False, "(4,)", bytes(8)), npy(1, "|b1", True, "(1, 2, 2)", b"\0\1\1\0"),
            npy(1, "<u4", False, "()", bytes(4)), npy(1, "|u1", False, "(0, 5)", b"")],
    "idx": [idx(8, [2, 3], bytes(6)), idx(9, [4], bytes(4)), idx(11, [2, 1], bytes(4)), idx(14, [2], bytes(16)),
            gzip.compress(idx(8, [40, 28], bytes(1120)), mtime=0), gzip.compress(idx(13, [3], bytes(12)), mtime=0)],
    "cifar": [bytes(3073), bytes(2 * 3074), bytes(10)],
    "safetensors": [safetensors(f"{{{WEIGHT},{STEP}}}", bytes(56)), safetensors(f"{{{WEIGHT}}}  ", bytes(48)),
                    safetensors('{"__metadata__":{"format":"pt"},"b":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]},'
                                '"f":{"dtype":"F8_E5M2","shape":[0],"data_offsets":[2,2]}}', b"\0\1"), safetensors("{}"),
                    safetensors('{"__metadata__":{"clade.zeros:w":"F32 3 4"},"w":{"dtype":"U8","shape":[6],'
                                '"data_offsets":[0,6]}}', b"\4\0\0\0\x80\x3f")],
    "checkpoint": [safetensors(EMPTY)],
    "bundle": [], "manifest": [], "xclbin": [], "aocx": [], "poclbin": [],
}


def main(tell, bundles, devices, folder):
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as room:
        subprocess.run([tell, room], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([bundles, room], check=True)
        for name, own in (("safetensors", "weights.safetensors"), ("checkpoint", "checkpoints/best.safetensors"),
                          *((name, name) for name, seeds in SEEDS.items() if not seeds)):
            with open(os.path.join(room, own), "rb") as f:
                SEEDS[name].append(f.read())
    for name in sorted(os.listdir(devices)):
        with open(os.path.join(devices, name), "rb") as f:
            SEEDS.setdefault("resource", list(SEEDS["manifest"])).append(f.read())
    for name, seeds in SEEDS.items():
        os.makedirs(os.path.join(folder, name))
        for number, seed in enumerate(seeds):
            with open(os.path.join(folder, name, str(number)), "wb") as f:
                f.write(seed)


if __name__ == "__main__":
    main(*sys.argv[1:])

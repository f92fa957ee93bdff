"""Shared by the tests of clade prune and clade quantize, which derive a smaller run."""
import hashlib
import json
import os
import pathlib
import struct
import subprocess

from common import CLADE


def command(*arguments, env=None):
    return subprocess.run([CLADE, *map(str, arguments)], capture_output=True, text=True, timeout=600, check=False,
                          env=dict(os.environ, **(env or {})))


def report(done):
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def tensors(path):
    """A safetensors file's tensors by name, with type, shape and bytes; and its metadata."""
    data = pathlib.Path(path).read_bytes()
    header = 8 + struct.unpack("<Q", data[:8])[0]
    entries = json.loads(data[8:header])
    metadata = entries.pop("__metadata__")
    return {name: (e["dtype"], e["shape"], data[header + e["data_offsets"][0]:header + e["data_offsets"][1]])
            for name, e in entries.items()}, metadata


def digest(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in pathlib.Path(folder).iterdir()}

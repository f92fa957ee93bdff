"""The command loads the emulated accelerator from its own directory, only if a device spec requests it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

CLADE, LAYER, LIBDIR = sys.argv[1:]
GIVEN = {k: v for k, v in os.environ.items() if k not in ("OPENCL_LAYERS", "CLADE_DEVICE")}


def devices(*spec, command=CLADE, **env):
    done = subprocess.run([command, "devices", "--json", *spec], env={**GIVEN, **env}, capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode:
        raise ValueError(done.stderr)
    return [(d["class"], d["programs"]) for d in json.loads(done.stdout)["devices"]]


class Command(unittest.TestCase):
    def test_where_it_is_asked_for(self):
        self.assertEqual(devices("--device", "emulated"), [("accel", ["bundle"])])
        self.assertEqual(devices("--device", "EMULATED:accel:0"), [("accel", ["bundle"])])
        self.assertEqual(devices("--device", "emulated", OPENCL_LAYERS=LAYER), [("accel", ["bundle"])])
        with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as folder:
            other = shutil.copy(LAYER, f"{folder}/libclade_emulated_other.so")
            self.assertEqual(devices("--device", "emulated", OPENCL_LAYERS=other), [("accel", ["bundle"])])
        self.assertEqual(len(devices(CLADE_DEVICE="emulated")), 2)
        self.assertEqual(len(devices()), 1)

    def test_where_it_is_installed(self):
        with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as prefix:
            os.makedirs(f"{prefix}/bin")
            os.makedirs(f"{prefix}/{LIBDIR}/clade")
            command = shutil.copy(CLADE, f"{prefix}/bin/clade")
            with self.assertRaisesRegex(ValueError, "no device matches \"emulated\""):
                devices("--device", "emulated", command=command)
            shutil.copy(LAYER, f"{prefix}/{LIBDIR}/clade")
            self.assertEqual(devices("--device", "emulated", command=command), [("accel", ["bundle"])])


unittest.main(argv=sys.argv[:1])

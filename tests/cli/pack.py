"""Bundles by the command: built from a manifest and a binary, inspected, verified, signed, refused."""

import json
import os
import struct
import tempfile
import unittest

import clade
import documents
import files
from clade import document, run

KERNEL = {"name": "gemm_i8", "arguments": [{"type": "global char *", "name": "a", "access": "read"},
                                           {"type": "int", "name": "n", "access": "value"}],
          "work_group": [1, 1, 1], "compute_units": 1, "banks": ["0"],
          "report": {"fmax_mhz": {"value": 35.2, "source": "routed", "from": "icetime"},
                     "lut": {"value": 1064, "source": "routed"}}, "evidence": "simulated"}
MANIFEST = {"format": 1, "interface": 1, "target": {"kind": "ice40", "device": "up5k"},
            "tool": {"name": "nextpnr-ice40", "version": "0.4", "command": "nextpnr-ice40 --up5k"},
            "source": {"sha256": "0" * 64}, "defines": {"ROWS": "2"},
            "binary": {"format": "bitstream", "file": "array.bin", "bytes": 9}, "kernels": [KERNEL]}

# Ed25519: a private key, its public key, and another public key.
PRIVATE = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
"""
PUBLIC = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=
-----END PUBLIC KEY-----
"""
OTHER = """-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=
-----END PUBLIC KEY-----
"""


def aocx(board):
    """The smallest file in Intel's format: an ELF file with sections only."""
    sections = [(".acl.board", board.encode()), (".acl.autodiscovery", b"23"), (".acl.fpga.bin", b"bits")]
    names = b"\0" + b"".join(name.encode() + b"\0" for name, _ in sections) + b".shstrtab\0"
    body, table = b"", bytes(40)
    for name, data in [*sections, (".shstrtab", names)]:
        table += struct.pack("<10I", names.index(name.encode()), 1, 0, 0, 52 + len(body), len(data), 0, 0, 0, 0)
        body += data
    return struct.pack("<7s9xHHIIIIIHHHHHH", b"\x7fELF\1\1\1", 0, 62, 0, 0, 0, 52 + len(body), 0, 52, 0, 0, 40, 5, 4) + body + table


class Pack(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory(dir=os.environ["HOME"])  # not directly in /tmp, which is writable by all
        self.addCleanup(room.cleanup)
        self.room = room.name
        self.put("array.bin", b"some bits")
        self.put("manifest.json", json.dumps(MANIFEST).encode())

    def path(self, name):
        return os.path.join(self.room, name)

    def put(self, name, data):
        with open(self.path(name), "wb") as f:
            f.write(data)

    def build(self, name, *more):
        return run("pack", "build", "--manifest", self.path("manifest.json"), "--binary", self.path("array.bin"),
                   "--output", self.path(name), *more)

    def failed(self, done, words):
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_both_forms(self):
        for form, more in ("file", []), ("directory", ["--directory"]):
            self.assertEqual(self.build(form, *more).returncode, 0)
            found = document(run("pack", "inspect", self.path(form), "--json"))
            self.assertEqual((found["form"], found["signed"], found["key"]), (form, False, None))
            self.assertEqual(found["kernels"][0]["report"][0],
                             {"figure": "fmax_mhz", "value": 35.2, "source": "routed", "from": "icetime"})
            shown = run("pack", "inspect", self.path(form)).stdout
            for words in "up5k", "gemm_i8(global char * a [read], int n [value])", "35.2 (routed, icetime)", "1064 (routed)", "evidence: simulated":
                self.assertIn(words, shown)
        both = [document(run("pack", "inspect", self.path(form), "--json"))["digest"] for form in ("file", "directory")]
        self.assertEqual(both[0], both[1])

    def test_without_a_binary(self):
        manifest = {**MANIFEST, "target": {"kind": "rtl", "device": "array"},
                    "binary": {"format": "none", "file": "none", "bytes": 0}}
        self.put("manifest.json", json.dumps(manifest).encode())
        done = run("pack", "build", "--manifest", self.path("manifest.json"), "--output", self.path("it"), "--directory")
        self.assertEqual(done.returncode, 0, done)
        found = document(run("pack", "verify", "--json", self.path("it")))["bundles"][0]
        self.assertEqual((found["ok"], len(found["digest"])), (True, 64))

    def test_signatures(self):
        private, public, other = (self.path(name) for name in ("private", "public", "other"))
        for path, text in (private, PRIVATE), (public, PUBLIC), (other, OTHER):
            self.put(path, text.encode())
        self.assertEqual(self.build("plain").returncode, 0)
        self.assertEqual(run("pack", "sign", self.path("plain"), "--key", private, "--output", self.path("it")).returncode, 0)
        self.assertTrue(document(run("pack", "inspect", self.path("it"), "--json"))["signed"])
        self.assertEqual(run("pack", "verify", self.path("plain"), self.path("it")).returncode, 0)
        self.assertIn("signed", run("pack", "verify", "--keys", public, self.path("it")).stdout)
        self.failed(run("pack", "verify", "--keys", other, self.path("it")), "none of the 1 trusted")
        done = run("pack", "verify", "--keys", public, "--json", self.path("it"), self.path("plain"))
        self.failed(done, "is not signed")
        self.assertEqual([one["ok"] for one in document(done)["bundles"]], [True, False])

    def test_damage(self):
        self.assertEqual(self.build("it").returncode, 0)
        with open(self.path("it"), "rb") as f:
            data = f.read()
        for at, words in (0, "no bundle"), (300, "digest"), (len(data) - 1, "digest"):
            self.put("it", data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
            self.failed(run("pack", "verify", self.path("it")), words)
        self.put("it", data[:-1])
        self.failed(run("pack", "inspect", self.path("it")), "its header tells")
        self.put("it", data)
        os.chmod(self.path("it"), 0o666)
        self.failed(run("pack", "verify", self.path("it")), "others may write")
        self.failed(run("pack", "inspect", self.path("nothing")), "nothing")

    def test_queues(self):
        with open(self.path("k.cl"), "w", encoding="utf-8") as f:
            for name in "first", "second":
                f.write(f"__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void {name}(__global float *y) {{ *y = 1; }}\n")
        self.put("it.aocx", aocx("a10"))
        made = ["--binary", self.path("it.aocx"), "--tool", "aoc", "--tool-version", "19.1", "--tool-command", "aoc k.cl"]
        for queues, target in ([0, 1], ["intel:a10", *made]), ([0, 0], ["pocl"]):
            done = run("pack", "build", "--output", self.path("it"), "--source", self.path("k.cl"), "--target", *target)
            self.assertEqual(done.returncode, 0, done)
            kernels = document(run("pack", "inspect", self.path("it"), "--json"))["kernels"]
            self.assertEqual([k["queue"] for k in kernels], queues)
        self.assertIn("queue 0", run("pack", "inspect", self.path("it")).stdout)

    def test_folders_with_spaces(self):
        os.mkdir(self.path("some kernels"))
        with open(self.path("some kernels/k.h"), "w", encoding="utf-8") as f:
            f.write("#define ONE 1\n")
        with open(self.path("some kernels/k.cl"), "w", encoding="utf-8") as f:
            f.write('#include "k.h"\n__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k(__global float *y) { *y = ONE; }')
        done = run("pack", "build", "--output", self.path("it"), "--source", self.path("some kernels/k.cl"), "--target", "pocl")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(f"-I{self.path('some kernels')}", document(run("pack", "inspect", self.path("it"), "--json"))["tool"]["command"])

    def test_what_is_refused(self):
        self.put("array.bin", b"other bits")
        self.failed(self.build("it"), "array.bin has 10 bytes")
        self.put("manifest.json", json.dumps({**MANIFEST, "color": 1}).encode())
        self.failed(self.build("it"), "color is not known")
        self.assertFalse(os.path.exists(self.path("it")))
        made = ["--binary", self.path("array.bin"), "--tool", "aoc", "--tool-version", "19.1", "--tool-command", "aoc k.cl"]
        with open(self.path("k.cl"), "w", encoding="utf-8") as f:
            f.write("__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void k(__global float *y) { *y = 1; }")
        target = ["pack", "build", "--output", self.path("it"), "--source", self.path("k.cl"), "--target"]
        self.failed(run(*target, "intel:a10", *made), "ELF")
        self.failed(run(*target, "xilinx:u250", *made), "no xclbin")
        self.assertFalse(os.path.exists(self.path("it")))
        for words, arguments in (("--target zork", [*target, "zork"]), ("--target intel:", [*target, "intel:"]),
                                 ("--target pocl:x", [*target, "pocl:x"]), ("--binary", [*target, "pocl", *made]),
                                 ("--binary", [*target, "intel:a10"]), ("--source", ["pack", "build", "--source", "x"])):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(words, done.stderr)
        for words, arguments in (("missing", []), ("'zork'", ["zork"]), ("--manifest", ["build"]), ("one bundle", ["inspect"]),
                                 ("--key", ["sign", "x"]), ("one bundle or more", ["verify"])):
            done = run("pack", *arguments)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(words, done.stderr)


class Files(files.Kit):
    def test_a_fifo_is_no_file(self):
        path = self.fifo()
        self.refused(1, "pack", "build", "--manifest", path, "--output", self.path("b"), told=[path, "not a regular file"])
        self.refused(1, "pack", "inspect", path, told=[path, "not a regular file"])

    def test_standard_output_is_no_file(self):
        self.refused(2, "pack", "build", "--target", "pocl", "--output", "-",
                     told=["-: standard output is not written to", "./-"])

    def test_nothing_overwrites_what_it_reads(self):
        key, bundle = self.path("key.pem", b"none"), self.path("w", b"none")
        self.refused(2, "pack", "build", "--target", "pocl", "--key", key, "--output", key, told=[key, "the same file"])
        self.refused(2, "pack", "sign", bundle, "--key", key, "--output", key, told=[key, "the same file"])
        self.assertEqual(self.contents(key), b"none")


class Documents(documents.Checks):
    def test_pack(self):
        with tempfile.TemporaryDirectory(dir=os.environ["HOME"]) as room:
            paths = [os.path.join(room, name) for name in ("manifest.json", "bits", "bundle")]
            with open(paths[0], "w", encoding="utf-8") as f:
                json.dump(MANIFEST, f)
            with open(paths[1], "w", encoding="utf-8") as f:
                f.write("some bits")
            done = run("pack", "build", "--manifest", paths[0], "--binary", paths[1], "--output", paths[2], "--json")
            self.check("clade pack inspect", done)
            self.check("clade pack verify", run("pack", "verify", paths[2], "--json"), run("pack", "verify", room, "--json"))


if __name__ == "__main__":
    clade.main()

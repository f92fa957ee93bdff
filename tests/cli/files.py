"""Files passed to the command: special files, oversized files, and outputs that would overwrite an input."""

import os
import tempfile
import unittest

import clade
from clade import document, run

SAFETENSORS = (2).to_bytes(8, "little") + b"{}"
MEMORY = 256 << 20


def npy(shape):
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    count = 1
    for n in shape:
        count *= n
    return b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head.encode() + bytes(4 * count)


class Kit(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.TemporaryDirectory()
        self.addCleanup(self.room.cleanup)
        os.chmod(self.room.name, 0o700)

    def path(self, name, data=None):
        path = os.path.join(self.room.name, name)
        if data is not None:
            with open(path, "wb") as file:
                file.write(data)
        return path

    def contents(self, path):
        with open(path, "rb") as file:
            return file.read()

    def fifo(self, name="fifo"):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkfifo(path)
        return path

    def refused(self, status, *args, told=(), **how):
        """Fails within seconds with one line that names the problem, and with an empty standard output."""
        done = run(*args, timeout=30, **how)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertRegex(done.stderr, r"^clade[^\n]*\n$")
        for word in told:
            self.assertIn(word, done.stderr)


class Files(Kit):
    def test_a_fifo_is_no_file(self):
        path = self.fifo()
        self.refused(1, "bench", "gemm", "--shapes", path, told=[path, "not a regular file"])
        self.refused(1, "tune", "gemm", "--shapes", path, told=[path, "not a regular file"],
                     env={"CLADE_CACHE_DIR": self.room.name})
        self.refused(1, "infer", path, "--model", "mlp", "--input", path, "--output", self.path("y.npy"),
                     told=[path, "not a regular file"])
        self.refused(1, "bench", "gemm", "--google", path, told=[path, "not a regular file"])
        self.refused(1, "infer", "--demo", "mlp", "--trace", path, told=[path, "not a regular file"])
        self.refused(1, "bench", "compare", "--html", path, told=[path, "not a regular file"])
        self.refused(1, "infer", "w", "--model", "mlp", "--input", "x", "--output", path, told=[path, "not a regular file"])
        self.refused(1, "tune", "merge", path, told=[path, "not a regular file"])
        kernel = self.fifo("kernels/gemm.cl")
        self.refused(1, "infer", "--demo", "mlp", env={"CLADE_KERNEL_DIR": os.path.dirname(kernel)},
                     told=["CLADE_KERNEL_DIR", "not a regular file"])

    def test_standard_output_is_no_file(self):
        for args in [["infer", "w", "--model", "mlp", "--input", "x", "--output", "-"], ["tune", "export", "-"],
                     ["infer", "--demo", "mlp", "--trace", "-"], ["bench", "gemm", "--google", "-"], ["bench", "compare", "--html", "-"]]:
            self.refused(2, *args, told=["-: standard output is not written to", "./-"])

    def test_nothing_overwrites_what_it_reads(self):
        x, w = self.path("x.npy", npy((1, 4))), self.path("w.safetensors", SAFETENSORS)
        os.link(x, self.path("hard.npy"))
        os.symlink(x, self.path("soft.npy"))
        before = self.contents(x)
        for output in [x, self.path("hard.npy"), self.path("soft.npy"), os.path.join(self.room.name, ".", "x.npy")]:
            self.refused(2, "infer", w, "--model", "mlp", "--input", x, "--output", output,
                         told=[f"--output {output}", "the same file", x])
        self.refused(2, "infer", w, "--model", "mlp", "--input", x, "--output", w, told=[w, "the same file"])
        shapes = self.path("shapes", b"mine m=1 n=1 k=1\n")
        self.refused(2, "bench", "gemm", "--shapes", shapes, "--google", shapes, told=[shapes, "the same file"])
        self.assertEqual(self.contents(x), before)

    def test_large_files_are_judged_by_their_beginning(self):
        """A sparse file of 3 GiB, for a process with less memory."""
        path = self.path("x.npy", b"")
        os.truncate(path, 3 << 30)
        self.refused(1, "infer", "w", "--model", "mlp", "--input", path, "--output", self.path("y.npy"),
                     before=["prlimit", f"--as={MEMORY}"], told=[path, "is no NPY file"])

    def test_a_name_that_is_none_lists_the_others(self):
        for args, names in [(["bench", "op"], ["softmax", "layer_norm"]), (["bench", "gemm"], ["512", "1024"]),
                            (["bench", "model"], ["lenet5", "resnet50"]), (["tune", "conv"], ["stem"])]:
            done = run(*args, "--only", "zork", timeout=60, env={"CLADE_CACHE_DIR": self.room.name})
            self.assertEqual(done.returncode, 1, done)
            for name in ["'zork'", *names]:
                self.assertIn(name, done.stderr)

    def test_log_levels(self):
        for level in ["", "error", "warning", "info", "debug"]:
            self.assertEqual(run("cache", "path", env={"CLADE_LOG": level}).returncode, 0)
        self.refused(2, "cache", "path", env={"CLADE_LOG": "foo"}, told=["CLADE_LOG=foo", "error, warning, info or debug"])

    def test_devices_of_one_name(self):
        """Devices of the same name are distinguished by their IDs wherever one is named."""
        env = {"POCL_DEVICES": "pthread pthread"}
        devices = document(run("devices", "--json", env=env))["devices"]
        self.assertEqual([device["name"] for device in devices], 2 * [devices[0]["name"]])
        name = devices[0]["name"]
        told = run("doctor", env=env).stdout
        done = run("devices", "--device", name, env=env)
        self.assertEqual(done.returncode, 1)
        for device in ["0", "1"]:
            self.assertIn(f"device {device}, {name}, computes", told)
            self.assertIn(f'{device} "{name}"', done.stderr)


class All(Kit):
    def test_bench_names_the_device(self):
        """Of two devices with one name, the requested one."""
        path = self.path("shapes", b"mine m=8 n=8 k=8\n")
        env = {"POCL_DEVICES": "pthread pthread"}
        name = document(run("devices", "--json", env=env))["devices"][1]["name"]
        done = run("bench", "gemm", "--shapes", path, "--rounds", "1", "--device", "1", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"device 1, {name} (", done.stdout)


if __name__ == "__main__":
    clade.main()

"""clade doctor on broken machines: each is really broken, and the corresponding check must detect it."""

import os
import shutil
import tempfile
import unittest

import clade
from clade import document, run


def library():
    """The library named by the tests' .icd file."""
    with open(os.environ["OCL_ICD_VENDORS"], encoding="utf-8") as file:
        return file.readline().strip()


class Doctor(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.room)

    def examine(self, ok, env=None, unset=(), args=(), before=()):
        """The report, after general checks: status, streams, and a remedy exactly for each problem."""
        done = run("doctor", "--json", *args, env=env, unset=unset, before=before)
        report = document(done)
        self.assertEqual(report["ok"], ok, report)
        self.assertEqual(done.returncode, 0 if ok else 1)
        for check in report["checks"]:
            self.assertTrue(check["message"])
            self.assertEqual(check["remedy"] is None, check["ok"] and not check["note"], check)
        ids = [check["id"] for check in report["checks"]]
        self.assertEqual(len(ids), len(set(ids)), ids)
        self.assertEqual(ok, any(device["ok"] for device in report["devices"]))
        return {check["id"]: check for check in report["checks"]}

    def failed(self, checks, name, *words):
        self.assertIn(name, checks)
        self.assertFalse(checks[name]["ok"], checks[name])
        for word in words:
            self.assertIn(word, checks[name]["message"] + " " + checks[name]["remedy"])

    def file(self, name, text):
        path = os.path.join(self.room, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_machine_that_works(self):
        checks = self.examine(True)
        self.assertTrue(all(check["ok"] for check in checks.values()), checks)
        self.assertTrue(checks["probe:0"]["ok"])
        text = run("doctor")
        self.assertEqual(text.returncode, 0)
        self.assertIn("Clade can compute here", text.stdout)

    def test_no_implementation(self):
        checks = self.examine(False, {"OCL_ICD_VENDORS": self.room})
        self.failed(checks, "vendors", self.room)
        self.failed(checks, "platforms", "-1001", "apt install")
        self.assertIn("cannot compute here", run("doctor", env={"OCL_ICD_VENDORS": self.room}).stdout)

    def test_library_that_is_missing(self):
        icd = self.file("gone.icd", "libno_such_vendor.so.1\n")
        for chosen in [self.room, icd]:
            checks = self.examine(False, {"OCL_ICD_VENDORS": chosen})
            self.failed(checks, "vendor:gone.icd", "libno_such_vendor.so.1", "cannot open")
        self.file("good.icd", library() + "\n")
        checks = self.examine(True, {"OCL_ICD_VENDORS": self.room})
        self.failed(checks, "vendor:gone.icd")
        self.assertTrue(checks["vendor:good.icd"]["ok"])

    def test_library_that_is_none(self):
        self.file("text.so", "no library\n")
        self.file("text.icd", os.path.join(self.room, "text.so"))
        self.file("empty.icd", "")
        self.file("other.icd", "libc.so.6")
        checks = self.examine(False, {"OCL_ICD_VENDORS": self.room})
        self.failed(checks, "vendor:text.icd")
        self.failed(checks, "vendor:empty.icd", "is empty")
        self.failed(checks, "vendor:other.icd", "not an OpenCL implementation")

    def test_implementation_that_aborts(self):
        bad = os.environ["CLADE_ABORTING_ICD"]
        self.file("bad.icd", bad)
        self.file("good.icd", library())
        checks = self.examine(False, {"OCL_ICD_VENDORS": self.room})
        self.failed(checks, "enumerate", "signal 6")
        self.failed(checks, f"enumerate:{bad}", "signal 6", "no mercy")
        self.assertNotIn(f"enumerate:{library()}", checks)

    def test_a_platform_without_devices(self):
        """A platform without devices is harmless beside others; alone it is a problem."""
        self.file("empty.icd", os.environ["CLADE_EMPTY_ICD"])
        checks = self.examine(False, {"OCL_ICD_VENDORS": self.room})
        self.failed(checks, "platform:Empty", "0 devices")
        self.file("good.icd", library())
        checks = self.examine(True, {"OCL_ICD_VENDORS": self.room})
        self.assertEqual((checks["platform:Empty"]["ok"], checks["platform:Empty"]["note"]), (True, True))
        done = run("doctor", env={"OCL_ICD_VENDORS": self.room})
        self.assertEqual(done.returncode, 0)
        self.assertIn("note  platform Empty (OpenCL 1.2) has no devices\n", done.stdout)
        self.assertNotIn("FAIL", done.stdout)
        self.assertIn(", 0 of ", done.stdout)

    def test_no_loader(self):
        for name in ["libOpenCL.so.1", "libOpenCL.so"]:
            self.file(name, "")
        checks = self.examine(False, {"LD_LIBRARY_PATH": self.room})
        self.failed(checks, "loader", "apt install", "ocl-icd-libopencl1")
        self.assertNotIn("platforms", checks)

    def test_no_linker(self):
        os.mkdir(os.path.join(self.room, "bin"))
        env = {"PATH": os.path.join(self.room, "bin"), "POCL_CACHE_DIR": os.path.join(self.room, "pocl")}
        checks = self.examine(False, env)
        self.failed(checks, "linker", "no ld on PATH", "binutils")
        self.failed(checks, "probe:0", "signal 6")
        order = list(checks)
        self.assertLess(order.index("linker"), order.index("probe:0"))

    def test_directories_that_cannot_be_made(self):
        blocked = os.path.join(self.file("file", ""), "in", "a", "file")
        checks = self.examine(False, {"POCL_CACHE_DIR": blocked, "CLADE_CACHE_DIR": blocked})
        self.failed(checks, "home", "POCL_CACHE_DIR", blocked)
        self.failed(checks, "cache", "CLADE_CACHE_DIR", blocked)
        self.assertTrue(any(name.startswith("platform:") and not check["ok"] for name, check in checks.items()))
        checks = self.examine(False, {"HOME": blocked}, unset=["POCL_CACHE_DIR", "XDG_CACHE_HOME", "CLADE_CACHE_DIR"])
        self.failed(checks, "home", blocked)

    def test_no_home(self):
        unset = ["HOME", "XDG_CACHE_HOME", "CLADE_CACHE_DIR"]
        checks = self.examine(True, unset=unset)
        self.failed(checks, "cache", "CLADE_CACHE_DIR")
        self.assertTrue(checks["home"]["ok"])
        checks = self.examine(False, {"POCL_CACHE_DIR": ""})
        self.failed(checks, "home", "empty", "unset POCL_CACHE_DIR")
        self.failed(checks, "platform:Portable Computing Language", "POCL_CACHE_DIR is set but empty")
        self.assertNotIn("enumerate", checks)  # nothing aborted

    def test_cache_that_others_may_write(self):
        path = os.path.join(self.room, "cache")
        os.mkdir(path)
        os.chmod(path, 0o777)
        checks = self.examine(True, {"CLADE_CACHE_DIR": path})
        self.failed(checks, "cache", path, "0777", "chmod 700")
        os.chmod(path, 0o700)
        self.assertTrue(self.examine(True, {"CLADE_CACHE_DIR": path})["cache"]["ok"])

    def test_chosen_devices(self):
        checks = self.examine(True, args=["--device", "0"])
        self.assertTrue(checks["probe:0"]["ok"])
        checks = self.examine(False, args=["--device", "no such device"])
        candidate = document(run("devices", "--json"))["devices"][0]["name"]
        self.failed(checks, "device:no such device", candidate)
        self.assertNotIn("probe:0", checks)


if __name__ == "__main__":
    clade.main()

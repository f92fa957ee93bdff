"""clade doctor on faults that require root: directories of other users, read-only and full disks, a missing loader, and
a user without any writable directory."""

import os
import shutil
import subprocess
import tempfile
import unittest

import clade
from clade import document, run

NOBODY = 65534


def may_unshare():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "true"], check=False,
                                                capture_output=True).returncode == 0


@unittest.skipUnless(may_unshare(), "needs root and mount namespaces")
class Privileged(unittest.TestCase):
    def setUp(self):
        self.room = tempfile.mkdtemp()
        os.chmod(self.room, 0o755)
        self.addCleanup(shutil.rmtree, self.room)

    def examine(self, env=None, unset=(), before=()):
        done = run("doctor", "--json", env=env, unset=unset, before=before)
        report = document(done)
        self.assertEqual(done.returncode, 0 if report["ok"] else 1)
        return report["ok"], {check["id"]: check for check in report["checks"]}

    def failed(self, checks, name, *words):
        self.assertFalse(checks[name]["ok"], checks[name])
        for word in words:
            self.assertIn(word, checks[name]["message"] + " " + checks[name]["remedy"])

    def mounted(self, command):
        """A command prefix that mounts something visible to the test only."""
        return ["unshare", "-m", "sh", "-e", "-c", command + '; exec "$@"', "-"]

    def test_cache_of_another_user(self):
        path = os.path.join(self.room, "cache")
        os.mkdir(path, 0o700)
        os.chown(path, NOBODY, NOBODY)
        ok, checks = self.examine({"CLADE_CACHE_DIR": path})
        self.assertTrue(ok)
        self.failed(checks, "cache", path, "belongs to")

    def test_read_only_disk(self):
        ok, checks = self.examine({"HOME": self.room, "CLADE_CACHE_DIR": self.room + "/c"},
                                  unset=["POCL_CACHE_DIR", "XDG_CACHE_HOME"],
                                  before=self.mounted(f"mount -t tmpfs -o ro none {self.room}"))
        self.assertFalse(ok)
        self.failed(checks, "home", self.room, "POCL_CACHE_DIR")
        self.failed(checks, "cache", self.room, "cannot be written")

    def test_full_disk(self):
        ok, checks = self.examine({"CLADE_CACHE_DIR": self.room}, before=self.mounted(
            f"mount -t tmpfs -o size=1m,mode=700 none {self.room}; cat /dev/zero >{self.room}/x 2>/dev/null || true"))
        self.assertTrue(ok)
        self.failed(checks, "cache", self.room, "full")

    def test_user_without_a_home(self):
        ok, checks = self.examine({"HOME": "/root", "CLADE_CACHE_DIR": "/root/clade"},
                                  unset=["POCL_CACHE_DIR", "XDG_CACHE_HOME"],
                                  before=["setpriv", f"--reuid={NOBODY}", "--clear-groups"])
        self.assertFalse(ok)
        self.failed(checks, "home", "/root", "POCL_CACHE_DIR")
        self.failed(checks, "cache", "/root/clade")

    def test_loader_hidden(self):
        found = subprocess.run("ldconfig -p | sed -n 's/.*=> //p' | grep /libOpenCL.so.1$", shell=True, check=True,
                               capture_output=True, text=True).stdout.split()
        hide = "; ".join(f"mount --bind /dev/null {os.path.realpath(path)}" for path in found)
        ok, checks = self.examine(before=self.mounted(hide))
        self.assertFalse(ok)
        self.failed(checks, "loader", "ocl-icd-libopencl1")

    def test_gpu_node_that_may_not_be_opened(self):
        before = self.mounted("mount -t tmpfs none /dev; mkdir /dev/dri; touch /dev/dri/renderD128; "
                              "chmod 600 /dev/dri/renderD128; mknod /dev/null c 1 3; mknod /dev/urandom c 1 9; "
                              "chmod 666 /dev/null")
        _, checks = self.examine({"POCL_CACHE_DIR": self.room},
                                 before=before + ["setpriv", f"--reuid={NOBODY}", "--clear-groups"])
        self.failed(checks, "dri", "/dev/dri/renderD128", "usermod -aG render")


if __name__ == "__main__":
    clade.main()

"""The manual pages: a page for each command, with every option of its help, and no complaint of man, mandoc or groff."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import clade
from clade import run

OF_BENCH = ["compare", "comm", "scale"]
CHECKERS = [["man", "--warnings=w", "-l"], ["mandoc", "-T", "lint", "-W", "error"],
            ["groff", "-man", "-ww", "-z", "-Tutf8"]]


class Man(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.room = tempfile.TemporaryDirectory()
        cls.done = run("__man", cls.room.name)
        cls.pages = {}
        for name in os.listdir(cls.room.name):
            with open(os.path.join(cls.room.name, name), encoding="ascii") as f:  # what any roff reads
                cls.pages[name] = f.read()

    @classmethod
    def tearDownClass(cls):
        cls.room.cleanup()

    def commands(self):
        names = [[name] for name in re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.M)]
        return names + [["bench", name] for name in OF_BENCH]

    def test_a_page_for_each_command(self):
        self.assertEqual((self.done.returncode, self.done.stdout, self.done.stderr), (0, "", ""))
        self.assertEqual(set(self.pages), {"clade.1"} | {"clade-" + "-".join(words) + ".1" for words in self.commands()})

    def test_sections(self):
        for name, page in self.pages.items():
            found = re.findall(r"^\.SH (.*)$", page, re.M)
            self.assertEqual(found[:3], ["NAME", "SYNOPSIS", "DESCRIPTION"], name)
            title = name[:-2].replace("-", "\\-")
            self.assertRegex(page, rf'^\.TH "{re.escape(title.upper())}" 1 ')
            self.assertRegex(page, rf"\n\.SH NAME\n{re.escape(title)} \\- [^\n.]+\n\.SH")

    def test_every_option_of_the_help(self):
        for words in self.commands():
            page = self.pages["clade-" + "-".join(words) + ".1"].replace("\\-", "-")
            options = re.findall(r"^  (--[\w-]+)", run(*words, "--help").stdout, re.M)
            self.assertIn("--help", options, words)
            self.assertEqual(re.findall(r"^\.TP\n\\fB(--[\w-]+)", page, re.M), options, words)

    def test_main_page_lists_the_commands(self):
        for (name, *more) in self.commands():
            if not more:
                self.assertIn(f"\\fBclade\\-{name}\\fR(1)", self.pages["clade.1"])

    def test_no_complaint(self):
        checker = next((words for words in CHECKERS if shutil.which(words[0])), None)
        if not checker:
            return  # the structure was looked at above
        env = {**os.environ, "LC_ALL": "C.UTF-8", "MANPAGER": "cat", "PAGER": "cat", "MANWIDTH": "80"}
        for name in sorted(self.pages):
            done = subprocess.run([*checker, os.path.join(self.room.name, name)], env=env, capture_output=True, text=True,
                                  check=False)
            said = done.stdout if checker[0] == "mandoc" else ""
            self.assertEqual((done.returncode, done.stderr, said), (0, "", ""), name)
            if checker[0] == "man":
                self.assertIn("SYNOPSIS", done.stdout)

    def test_wrong_usage(self):
        self.assertEqual(run("__man").returncode, 2)
        done = run("__man", "/nonexistent/man")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nonexistent/man/clade.1", done.stderr)


if __name__ == "__main__":
    clade.main()

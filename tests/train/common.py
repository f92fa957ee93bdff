"""Shared by the training tests: running the command, and parsing its output."""
import json
import os
import subprocess
import sys
import unittest

CLADE = sys.argv[1]


def train(*arguments, env=None, timeout=300):
    return subprocess.run([CLADE, "train", "--json", *map(str, arguments)], env=dict(os.environ, **(env or {})),
                          capture_output=True, text=True, timeout=timeout, check=False)


def events(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def result(done):
    """The last event of a training that must have completed."""
    assert done.returncode == 0, done
    last = events(done)[-1]
    assert last["event"] == "done", last
    return last


def classes(everything):
    """The program's test cases named All…, or all others."""
    found = [name for name, value in vars(sys.modules["__main__"]).items()
             if isinstance(value, type) and issubclass(value, unittest.TestCase)]
    return [name for name in found if name.startswith("All") == everything]


def main():
    """PROGRAM.py CLADE [all]"""
    unittest.main(argv=sys.argv[:1] + classes(sys.argv[2:] == ["all"]), verbosity=2)

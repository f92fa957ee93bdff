"""Runs the command for the tests, and starts the tests."""

import json
import os
import subprocess
import sys
import unittest

from common import classes

CLADE = ROOT = ""
SKIPPED = 77


def run(*args, env=None, unset=(), before=(), timeout=300):
    """The finished process. `env` adds environment variables, `unset` removes some, `before` is a command prefix."""
    whole = {k: v for k, v in os.environ.items() if k not in unset}
    whole.update(env or {})
    return subprocess.run([*before, CLADE, *args], env=whole, capture_output=True, text=True, timeout=timeout,
                          check=False)


def document(done):
    """The JSON document on standard output, which must contain nothing else."""
    found = json.loads(done.stdout)
    assert found["schema"] == 1, found
    return found


def main():
    """PROGRAM.py CLADE ROOT [all]. If a case could not run, the whole test counts as skipped, never as passed."""
    global CLADE, ROOT
    CLADE, ROOT = sys.argv[1], sys.argv[2]
    argv = sys.argv[:1] + classes(sys.argv[3:] == ["all"])
    result = unittest.main(module="__main__", argv=argv, exit=False, verbosity=2).result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.skipped else 0)

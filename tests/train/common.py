"""What the tests of trainings share: running the command, and reading what it prints."""
import json
import os
import subprocess
import sys

CLADE = sys.argv[1]


def train(*arguments, env=None, timeout=300):
    return subprocess.run([CLADE, "train", "--json", *map(str, arguments)], env=dict(os.environ, **(env or {})),
                          capture_output=True, text=True, timeout=timeout, check=False)


def events(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def result(done):
    """The last event of a training that must have come to its end."""
    assert done.returncode == 0, done
    last = events(done)[-1]
    assert last["event"] == "done", last
    return last

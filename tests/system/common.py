"""Shared by the drivers of the system tests: private caches, and running first_result."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time


class Caches:
    """Cache directories of Clade and PoCL, and the environment that selects them. They are empty, or start with all
    files of `warm`, or with PoCL's of `compiled`: a cold process then makes the same calls without waiting for the
    compiler. Files are hard links, since existing files are only read or replaced; each directory has its own lock."""

    def __init__(self, warm=None, compiled=None):
        self.own = tempfile.TemporaryDirectory(prefix="clade-test-")
        self.top = pathlib.Path(self.own.name)
        self.clade, self.pocl = self.top / "clade", self.top / "pocl"
        for folder in (self.clade, self.pocl):
            folder.mkdir(mode=0o700)
        if warm or compiled:
            shutil.copytree((warm or compiled).top, self.top, dirs_exist_ok=True, copy_function=os.link,
                            ignore=shutil.ignore_patterns("lock" if warm else "clade"))

    def environment(self, **more):
        env = dict(os.environ, CLADE_CACHE_DIR=str(self.clade), POCL_CACHE_DIR=str(self.pocl))
        env.update({name: str(value) for name, value in more.items()})
        return env

    def files(self):
        """All files except the empty tempfile_* that PoCL creates at each start to test write access."""
        return {str(f.relative_to(self.top)) for f in self.top.rglob("*")
                if f.is_file() and not (f.name.startswith("tempfile_") and f.stat().st_size == 0)}


class Result:
    """Outcome of a process: exit status, and its JSON line."""

    def __init__(self, process):
        self.status = process.returncode
        self.stderr = process.stderr
        lines = process.stdout.strip().splitlines()
        self.json = json.loads(lines[-1]) if lines else {}

    def __str__(self):
        return f"exit status {self.status}, {self.json}\n{self.stderr[-2000:]}"


def command(program, *arguments, prefix=()):
    return [*prefix, str(program), "--start", str(time.monotonic_ns()), *arguments]


def run(program, *arguments, env=None, prefix=(), timeout=300):
    return Result(subprocess.run(command(program, *arguments, prefix=prefix), env=env, timeout=timeout,
                                 capture_output=True, text=True, stdin=subprocess.DEVNULL))


mine = threading.local()


def forked(program, *arguments, env):
    """Runs the program in a fork of this thread's server process, which has loaded PoCL (see first_result.c)."""
    if not hasattr(mine, "server"):
        mine.folder = tempfile.TemporaryDirectory(prefix="clade-test-")
        library = pathlib.Path(os.environ["OCL_ICD_VENDORS"]).read_text().strip()
        mine.server = subprocess.Popen([program, "--serve", mine.folder.name, library], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True)
    words = [f"{name}={value}" for name, value in env.items() if os.environ.get(name) != value]
    print(*words, *arguments, sep="\t", file=mine.server.stdin, flush=True)
    status = os.waitstatus_to_exitcode(int(mine.server.stdout.readline()))
    printed = [pathlib.Path(mine.folder.name, name).read_text() for name in ("stdout", "stderr")]
    return Result(subprocess.CompletedProcess(arguments, status, *printed))


def start(program, *arguments, env=None):
    return subprocess.Popen(command(program, *arguments), env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, stdin=subprocess.DEVNULL)


def finish(process, timeout=120):
    process.stdout_text, process.stderr_text = process.communicate(timeout=timeout)
    return Result(subprocess.CompletedProcess(process.args, process.returncode, process.stdout_text,
                                              process.stderr_text))


def finds_leaks(program):
    """Whether the program was built with LeakSanitizer, which must then find an intentional leak."""
    lost = forked(program, "--leak", env=os.environ)
    if lost.json["leak_sanitizer"] and lost.status == 0:
        raise SystemExit(f"lost memory was not found: {lost}")
    return lost.json["leak_sanitizer"]


class Checks:
    """Counts checks; the exit status tells whether all passed."""

    def __init__(self):
        self.failed = 0

    def that(self, ok, what):
        print(("ok   " if ok else "FAIL ") + what, flush=True)
        self.failed += not ok

    def exit(self):
        raise SystemExit(1 if self.failed else 0)

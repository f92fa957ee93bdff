"""clade launch: a training whose ranks are killed or stopped ends with the bits of an undisturbed one.
    launch.py CLADE MPIRUN [all]
"""
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import told
from ranks import CLADE, ENV, HERE, MPIRUN, children_of, on_ranks, ours, parent, ranks_of, result, run, train

LENET = ["--model", "lenet5", "--data", "digits", "--batch", "64"]
OFTEN = ["--checkpoint-steps", "10"]


STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2


def hear():
    """Restores signals that this test may have inherited as ignored, for example from a background shell."""
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)


class Job:
    """A launched command whose output is read while it runs."""

    def __init__(self, *command, retries=3, pause=30):
        self.words = tempfile.TemporaryFile("a+", encoding="utf-8")  # an unread pipe would fill up
        self.process = subprocess.Popen([CLADE, "launch", "--retries", str(retries), "--pause", str(pause), "--", *command],
                                        env=ENV, stdout=subprocess.PIPE, stderr=self.words, text=True, preexec_fn=hear)
        self.seen = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        while self.process.poll() is None:  # a test failed; the third signal kills the launched command
            self.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
        self.process.stdout.close()
        self.words.close()

    def until(self, step):
        """Reads to an event of this or a later step of the current attempt; None: the output ended."""
        for line in self.process.stdout:
            event = told.event(line)
            self.seen += [event] if event else []
            if event and event["event"] == "step" and event["step"] >= step:
                return event["step"]
        return None

    def child(self):
        return children_of(self.process.pid)[0]

    def end(self):
        """The exit status and the messages."""
        self.until(float("inf"))
        return self.process.wait(timeout=60), self.told()

    def told(self):
        self.words.seek(0)
        return self.words.read()

    def last(self):
        return self.seen[-1]


def ranks(*options, n=2):
    return [MPIRUN, "-np", str(n), *HERE, *train(*options)]


def tries(words):
    return re.findall(r"^clade: launch: (try .*)$", words, re.MULTILINE)


class Case(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory(prefix="clade-test-")
        self.addCleanup(room.cleanup)
        self.room, self.folder = room.name, os.path.join(room.name, "run")

    def ends_as_undisturbed(self, job, *options):
        status, words = job.end()
        self.assertEqual(status, 0, words)
        self.assertEqual(job.last()["weights_sha256"], result(on_ranks(2, *options))["weights_sha256"])
        return words

    def counted(self, script, *options):
        """The status of a launched shell script, and how often it ran."""
        marks = os.path.join(self.room, "marks")
        done = run([CLADE, "launch", "--pause", "0", *options, "--", "sh", "-c", f"echo >>{marks}; {script}"])
        with open(marks, encoding="utf-8") as file:
            lines = len(file.readlines())
        os.remove(marks)
        return done.returncode, lines, done.stderr


class Launch(Case):
    def test_a_rank_that_dies(self):
        options = [*LENET, "--epochs", "1"]
        with Job(*ranks(*options, *OFTEN, "--checkpoint-dir", self.folder)) as job:
            job.until(25)
            os.kill(ranks_of(job.child())[1], signal.SIGKILL)
            words = self.ends_as_undisturbed(job, *options)
        self.assertRegex(words, r"launch: try 2 of 4 in 1 s: \S*mpi(run|exec)\S* ended with status 137 \(signal 9: Killed\); "
                                r"resumes at step [2-9]\d of " + self.folder)
        self.assertEqual([event["resumed"] for event in job.seen if event["event"] == "begin"], [False, True])

    def test_what_is_tried_again(self):
        for script, options, status, times in (("exit 0", [], 0, 1), ("exit 1", [], 1, 1), ("exit 2", [], 2, 1),
                                               ("exit 130", [], 130, 1), ("exit 132", [], 132, 1),
                                               ("exit 75", ["--retries", "1"], 75, 2), ("exit 205", ["--retries", "1"], 205, 2),
                                               ("kill -9 $$", ["--retries", "0"], 137, 1),
                                               ("kill -9 $$", ["--retries", "2"], 137, 3)):
            self.assertEqual(self.counted(script, *options)[:2], (status, times), script)

    def test_nothing_is_left_of_a_try(self):
        """Processes that exit on a signal and those that do not; children and detached processes."""
        marks = os.path.join(self.room, "pids")
        script = f'(trap "" TERM; echo $$ >>{marks}; exec sleep 1000) & setsid sleep 1001 & echo $! >>{marks}; kill -9 $$'
        begun = time.monotonic()
        self.assertEqual(self.counted(script, "--retries", "0")[:2], (137, 1))
        self.assertLess(time.monotonic() - begun, 30)
        with open(marks, encoding="utf-8") as file:
            self.assertFalse([pid for pid in file.read().split() if parent(pid)])

    def test_wrong_usage(self):
        for words, told in (([], "COMMAND is missing"), (["--retries", "-1", "true"], "--retries"), (["--json", "true"], "--json"),
                            (["./no such command"], "cannot be started"),
                            (["mpirun", "-np", "2", CLADE, "train", "--bogus"], "unknown option '--bogus'")):
            done = run([CLADE, "launch", *words])
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(told, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done)


class All(Case):
    def test_twenty_dead_ranks(self):
        """Kills ranks one after another at random, every other one before the attempt's first checkpoint."""
        options, chance = [*LENET, "--epochs", "4"], random.Random(7)
        begins = 0
        with Job(*ranks(*options, *OFTEN, "--checkpoint-dir", self.folder), retries=20, pause=0) as job:
            step = 0
            for kill in range(20):
                begins += 1
                while len([e for e in job.seen if e["event"] == "begin"]) < begins:
                    job.until(0)
                reached = job.last()["step"]
                step = job.until(reached + (chance.randrange(1, 5) if kill % 2 else chance.randrange(12, 30)))
                self.assertIsNotNone(step, f"it ended before kill {kill}")
                os.kill(ranks_of(job.child())[chance.randrange(2)], signal.SIGKILL)
            words = self.ends_as_undisturbed(job, *options)
        self.assertEqual(len(tries(words)), 20)

    def test_a_rank_that_is_stopped(self):
        options = [*LENET, "--epochs", "1"]
        with Job(*ranks(*options, *OFTEN, "--timeout", "3", "--checkpoint-dir", self.folder)) as job:
            job.until(25)
            os.kill(ranks_of(job.child())[0], signal.SIGSTOP)
            words = self.ends_as_undisturbed(job, *options)
        self.assertIn("rank 0 has not answered rank 1 of 2", words)
        self.assertRegex(tries(words)[0], r"status 75 \(a rank or a device was lost\); resumes at step")

    def test_mpirun_that_dies(self):
        options = [*LENET, "--epochs", "1"]
        with Job(*ranks(*options, *OFTEN, "--checkpoint-dir", self.folder)) as job:
            job.until(25)
            orphans = ranks_of(job.child())
            os.kill(job.child(), signal.SIGKILL)
            while "begin" not in [e["event"] for e in job.seen[-2:]]:
                job.until(0)
            self.assertFalse([pid for pid in orphans if ours(pid)])
            self.ends_as_undisturbed(job, *options)

    def test_a_node_that_is_lost(self):
        """A node's daemon and rank are lost. Nodes are simulated on this machine by an agent instead of ssh."""
        agent = os.path.join(self.room, "agent")
        with open(agent, "w", encoding="utf-8") as file:
            # a temporary directory for each node: daemons that share one fail if both make it
            file.write('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\n'
                       f'export TMPDIR={self.room}/$1\nmkdir -p "$TMPDIR"\nshift\nexec sh -c "$*"\n')
        os.chmod(agent, 0o755)
        options = [*LENET, "--epochs", "1"]
        hosts = ["--host", "127.0.0.2:1,127.0.0.3:1", "--mca", "plm_rsh_agent", agent, "--mca", "btl_tcp_if_include", "lo",
                 "--mca", "oob_tcp_if_include", "lo", "--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--bind-to", "none"]
        with Job(MPIRUN, "-np", "2", *hosts, *train(*options, *OFTEN, "--checkpoint-dir", self.folder)) as job:
            job.until(25)
            shells = children_of(job.child())
            daemons = [pid for shell in shells for pid in [shell, *children_of(shell)] if any(map(ours, children_of(pid)))]
            self.assertEqual(len(daemons), 2)
            lost = [daemons[0], *children_of(daemons[0])]
            for pid in lost:
                os.kill(pid, signal.SIGKILL)
            words = self.ends_as_undisturbed(job, *options)
        self.assertEqual(len(tries(words)), 1, words)

    def test_told_to_stop(self):
        """Each signal ends all ranks after one step with a checkpoint, without another attempt."""
        for number in STOPS:
            folder = os.path.join(self.room, number.name)
            with Job(*ranks(*LENET, "--epochs", "100", "--checkpoint-dir", folder)) as job:
                job.until(25)
                job.process.send_signal(number)
                status, words = job.end()
            self.assertEqual((status, job.last()["event"], tries(words)), (0, "stopped", []), words)
            self.assertIn(f"step-{job.last()['step']:010}.safetensors", os.listdir(folder))

    def test_told_to_stop_between_tries(self):
        with Job("sh", "-c", "exit 75") as job:
            while not tries(job.told()):
                time.sleep(0.05)
            job.process.send_signal(signal.SIGTERM)
            status, words = job.end()
        self.assertEqual((status, len(tries(words))), (75, 1), words)

    def test_who_insists(self):
        """A command that ignores signals is killed at the third one."""
        with Job("sh", "-c", 'trap "" TERM; echo "{\\"event\\":\\"step\\",\\"step\\":1}"; while :; do sleep 1; done') as job:
            job.until(1)
            for _ in range(3):
                time.sleep(0.5)
                self.assertIsNone(job.process.poll())
                job.process.send_signal(signal.SIGTERM)
            self.assertEqual(job.end()[0], 137)

    def test_overwrite(self):
        """A training that replaces another one restarts from the beginning before its first checkpoint, and resumes
        after it."""
        result(run(train(*LENET, "--seed", "1", "--epochs", "1", "--checkpoint-dir", self.folder)))
        marks = os.path.join(self.room, "marks")
        first = f'if [ ! -e {marks} ]; then touch {marks}; kill -9 $$; fi; exec "$@"'
        options = [*LENET, "--epochs", "1"]
        with Job("sh", "-c", first, "sh", *train(*options, *OFTEN, "--over", self.folder)) as job:
            job.until(25)
            os.kill(job.child(), signal.SIGKILL)
            status, words = job.end()
        self.assertEqual(status, 0, words)
        self.assertIn("begins anew", tries(words)[0])
        self.assertIn("resumes at step", tries(words)[1])
        self.assertEqual(job.last()["weights_sha256"], result(run(train(*options)))["weights_sha256"])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "All" if sys.argv[3:] == ["all"] else "Launch"], verbosity=2)

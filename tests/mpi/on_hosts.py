"""Trainings on two emulated hosts (hosts.py), with links of 1 Gbit/s in each direction.
    on_hosts.py CLADE MPIRUN              bits, bytes, and clean-up
    on_hosts.py CLADE MPIRUN ALL_REDUCE   speed compared with MPI's all-reduce, on an idle machine
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import hosts
from noise import noise
from ranks import ENV, MPIRUN, events, on_ranks, result, train

RATE, BANDWIDTH = "1gbit", 125e6
DIGITS = ["--data", "digits", "--batch", "64", "--seed", "7"]


def on_hosts(both, *command, per_host=1):
    words = both.command(command, per_host, MPIRUN)
    return subprocess.run(words, env=ENV, capture_output=True, text=True, timeout=1800, check=False)


class All(unittest.TestCase):
    def test_same_bits_as_on_one_host(self):
        for per_host, model in (1, "lenet5"), (2, "mlp"):
            options = ["--model", model, *DIGITS, "--epochs", "1"]
            with hosts.Hosts(2, RATE) as both:
                apart = result(on_hosts(both, *train(*options), per_host=per_host))
                here = result(on_ranks(2 * per_host, *options))
            self.assertEqual(apart["weights_sha256"], here["weights_sha256"])
            self.assertEqual(apart["comm"]["ranks"], 2 * per_host)

    def test_bytes_as_told(self):
        """The difference that a second epoch makes to the interface's counters and to the reported bytes; initial
        variables are counted by the former only."""
        sent, told = [], []
        with hosts.Hosts(2, RATE) as both:
            for epochs in "1", "2":
                before = both.counters("h1")
                told.append(result(on_hosts(both, *train("--model", "lenet5", *DIGITS, "--epochs", epochs)))["comm"]["bytes"])
                sent.append([after - old for after, old in zip(both.counters("h1"), before)])
        mine = told[1] - told[0]
        for way, name in enumerate(("sent", "received")):
            counted = sent[1][way] - sent[0][way]
            print(f"of {mine} bytes the interface {name} {counted}, {counted / mine - 1:+.2%}")
            self.assertGreater(counted, mine)  # headers
            self.assertLess(counted, 1.05 * mine)

    def test_nothing_is_left_of_a_test_that_is_killed(self):
        script = ("import time, hosts\nhosts.enter()\n"
                  "with hosts.Hosts(2): print('made', flush=True); time.sleep(600)")
        folder = os.path.dirname(os.path.abspath(__file__))
        env = {name: value for name, value in os.environ.items() if name != hosts.INSIDE}
        with tempfile.NamedTemporaryFile("w", suffix=".py", prefix="clade-test-") as file:
            file.write(script)
            file.flush()
            before = processes()
            with subprocess.Popen([sys.executable, file.name], env={**env, "PYTHONPATH": folder}, text=True,
                                  stdout=subprocess.PIPE) as job:
                self.assertEqual(job.stdout.readline(), "made\n")
                self.assertGreaterEqual(len(processes() - before), 4)  # unshare, the script, two hosts
                job.kill()
        until = time.monotonic() + 10
        while processes() - before and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(processes() - before, set())

    def test_nothing_is_left_after_a_failure(self):
        with self.assertRaises(ZeroDivisionError):
            with hosts.Hosts(2, RATE) as both:
                keepers = both.keepers
                raise ZeroDivisionError
        self.assertEqual([keeper.returncode for keeper in keepers], [-signal.SIGKILL] * 2)
        links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, check=True).stdout)
        self.assertEqual([link["ifname"] for link in links], ["lo"])


class Long(unittest.TestCase):
    def test_sums(self):
        """In a sum over two ranks, each sends as many bytes as the sum has."""
        with hosts.Hosts(2, RATE) as both:
            ours = comm(both)["sums"]
            theirs = lines(on_hosts(both, sys.argv[3]))
        reached = []
        for line in theirs:
            bound = line["bytes"] / BANDWIDTH
            seconds = [s["seconds"] for s in ours if s["bytes"] == line["bytes"]][0]
            print(f"{line['bytes'] >> 20:3} MiB: of the link {bound / seconds:.2f}; by MPI_Allreduce "
                  f"{bound / line['allreduce']:.2f}, by MPI_Iallreduce {bound / line['iallreduce']:.2f}")
            reached.append(bound / seconds)
        self.assertGreater(min(reached), 0.8)

    def test_a_step(self):
        """Sums take about half as long as the rest of a step."""
        compute, wire, batch = 0, 1, 16
        while wire > 0.7 * compute:  # faster processors need more images for that
            batch *= 2
            with hosts.Hosts(2, RATE) as both:
                told = comm(both, "--model", "resnet18", "--batch", str(batch), "--side", "32")
            compute, step = told["model"]["staged_seconds"], told["step"]["seconds"]
            wire = told["model"]["gradient_bytes"] / BANDWIDTH
            print(f"{batch} images: a step of {step:.3f} s, {compute:.3f} alone, {wire:.3f} on the wire", flush=True)
        self.assertLess(step / max(compute, wire), 1.25)

    def test_hidden(self):
        with tempfile.TemporaryDirectory(prefix="clade-test-") as room, hosts.Hosts(2, RATE) as both:
            noise(room, 640, 32)
            told = result(on_hosts(both, *train("--model", "resnet18", "--data", f"npy:{room}", "--batch", "64", "--epochs",
                                                "1")))["comm"]
        print(f"{told['seconds']:.1f} s in sums, of which {told['hidden_fraction']:.2f} hidden")
        self.assertGreater(told["hidden_fraction"], 0.7)


def processes():
    """Running processes; a zombie has no command line in /proc."""
    found = set()
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as words:
                if words.read():
                    found.add(number)
        except OSError:
            pass
    return found


def lines(done):
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines()]


def comm(both, *options):
    done = on_hosts(both, sys.argv[1], "bench", "comm", "--json", *options)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


if __name__ == "__main__":
    hosts.enter()
    unittest.main(argv=[sys.argv[0], "Long" if sys.argv[3:] else "All"], verbosity=2)

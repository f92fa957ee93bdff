"""ResNet-18 on 32 x 32 images by two ranks of one thread, alternating with PyTorch's DistributedDataParallel over gloo
and with one process of two threads. Progress goes to standard error, a document to standard output.

    ddp.py CLADE MPIRUN [--batch N] [--rounds N] [--steps N] [--check]

--batch: images per rank, default 32; the single process has those of both. --check: fails below the target ratios.
Skipped if no Python has torch (Debian: python3-torch); CLADE_BENCH_PYTHON selects the interpreter.
"""
import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import told
from noise import noise

SKIPPED = 77  # ctest's exit status for skipped tests
RANKS, WARM, TEST = 2, 3, 32  # WARM: uncounted steps, which include compilation and initialization
MPI = ["--bind-to", "core", "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp"]
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ddp_torch.py")
AIMS = {"ratio_to_pytorch": 1.3, "ratio_to_one_process": 0.8}
NAMES = {"clade": "Clade, 2 ranks of one thread", "pytorch": "PyTorch, 2 ranks of one thread",
         "one_process": "Clade, one process of two threads"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clade")
    parser.add_argument("mpirun")
    for name, unset in ("batch", 32), ("rounds", 3), ("steps", 12):
        parser.add_argument("--" + name, type=int, default=unset)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if min(given.batch, given.rounds, given.steps) < 1:
        parser.error("--batch, --rounds and --steps are 1 or more")
    return given


def python_with_torch():
    for python in os.environ.get("CLADE_BENCH_PYTHON"), "/usr/bin/python3", sys.executable:
        if python and not subprocess.run([python, "-c", "import numpy, torch.distributed"], capture_output=True,
                                         check=False).returncode:
            return python
    return None


# ---- contestants: seconds of each counted step ----
def clade(command, threads, processors):
    """From the times at which steps are reported."""
    env = {**os.environ, **AS_ROOT, "POCL_MAX_PTHREAD_COUNT": str(threads)}
    found = []
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, processors)) as job:
        for line in job.stdout:
            event = told.event(line)
            if event:
                found.append((time.perf_counter(), event))
        errors = job.stderr.read()
    assert job.returncode == 0, errors
    at = [when for when, event in found if event["event"] == "step"]
    return [after - before for before, after in zip(at, at[1:])][WARM - 1:], found[0][1]


def by_ranks(job):
    return clade([job.mpirun, "-np", str(RANKS), *MPI, *job.train], 1, job.processors)


def by_one(job):
    return clade(job.train, RANKS, job.processors)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def by_torch(job):
    port, env = str(free_port()), {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([job.python, "-B", PEER, job.room, str(r), str(RANKS), port, str(job.batch)], env=env,
                              stdout=subprocess.PIPE, text=True,
                              preexec_fn=lambda own=processor: os.sched_setaffinity(0, {own}))
             for r, processor in enumerate(job.processors)]
    try:
        text = ranks[0].communicate(timeout=1200)[0]
        assert all(rank.wait(timeout=60) == 0 for rank in ranks)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    found = json.loads(text)
    return found["seconds"][WARM:], found


# ---- load by other processes ----
def ticks():
    """Total and idle ticks of all processors, and CPU seconds of this script's children."""
    with open("/proc/stat", encoding="utf-8") as stat:
        all_of_them = list(map(int, stat.readline().split()[1:9]))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(all_of_them), all_of_them[3] + all_of_them[4], (used.ru_utime + used.ru_stime) * os.sysconf("SC_CLK_TCK")


def busy(before, after):
    everything, idle, own = (b - a for a, b in zip(before, after))
    return max(0.0, 1 - (idle + own) / everything) if everything else 0.0


# ---- the comparison ----
def measure(job):
    """Rounds in which each contestant runs once."""
    contestants = {"clade": by_ranks, "pytorch": by_torch, "one_process": by_one}
    medians, told_by = {name: [] for name in contestants}, {}
    before = ticks()
    for _ in range(job.rounds):
        for name, run in contestants.items():
            seconds, told_by[name] = run(job)
            medians[name].append(statistics.median(seconds))
    parameters = told_by["pytorch"]["parameters"]
    assert told_by["clade"]["optimizer_bytes"] == [4 * parameters] * RANKS, "the models have other parameters"
    return medians, told_by["pytorch"]["version"], parameters, busy(before, ticks())


def ratio(medians, other):
    """Compared within a round, since load varies between rounds; above 1: Clade's ranks are faster."""
    return statistics.median(theirs / ours for ours, theirs in zip(medians["clade"], medians[other]))


def document(job, medians, version, parameters, others):
    found = {"model": "resnet18", "side": 32, "ranks": RANKS, "batch": job.batch, "parameters": parameters, "rounds": job.rounds,
             "steps": job.steps - WARM, "pytorch_version": version, "busy": others}
    for name, rounds in medians.items():
        seconds = statistics.median(rounds)
        found[name] = {"seconds": seconds, "seconds_of_rounds": rounds, "images_per_s": RANKS * job.batch / seconds}
    found["ratio_to_pytorch"] = ratio(medians, "pytorch")
    found["ratio_to_one_process"] = ratio(medians, "one_process")
    return found


def show(found):
    for name, words in NAMES.items():
        row = found[name]
        rounds = ", ".join(f"{1e3 * seconds:.0f}" for seconds in row["seconds_of_rounds"])
        print(f"{words:36} {1e3 * row['seconds']:8.1f} ms a step {row['images_per_s']:8.1f} images/s   (rounds: {rounds})",
              file=sys.stderr)
    print(f"2 ranks are {found['ratio_to_pytorch']:.2f} times as fast as PyTorch {found['pytorch_version']}, and "
          f"{found['ratio_to_one_process']:.2f} times as fast as one process", file=sys.stderr)
    if found["busy"] > 0.1:
        print(f"other processes used {100 * found['busy']:.0f} % of the processors", file=sys.stderr)


def main():
    job = arguments()
    job.steps += WARM
    job.processors = sorted(os.sched_getaffinity(0))[:RANKS]
    job.python = python_with_torch()
    if not job.python or len(job.processors) < RANKS:
        print("skipped: no Python has torch (Debian: python3-torch)" if not job.python else "skipped: it takes two processors")
        return SKIPPED
    with tempfile.TemporaryDirectory(prefix="clade-test-") as job.room:
        noise(job.room, job.steps * RANKS * job.batch, TEST)
        job.train = [job.clade, "train", "--json", "--model", "resnet18", "--data", "npy:" + job.room, "--batch",
                     str(RANKS * job.batch), "--optimizer", "sgd", "--epochs", "1"]
        found = document(job, *measure(job))
    show(found)
    print(json.dumps(found))
    short = [name for name, aim in AIMS.items() if found[name] < aim]
    return 1 if job.check and short else 0


if __name__ == "__main__":
    sys.exit(main())

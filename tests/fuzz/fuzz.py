"""Runs libFuzzer on a file reader. Skipped if clang cannot build it.
    fuzz.py build PROGRAM TELL BUNDLES DEVICES COMMAND…   builds the program and its seeds
    fuzz.py run PROGRAM FORMAT LIMIT   -runs=… or -max_total_time=…"""

import os
import shutil
import subprocess
import sys
import tempfile

import corpus

SKIPPED = 77
# Small files must not allocate a gigabyte. Findings are printed instead of written to files.
LIMITS = ["-max_len=8192", "-rss_limit_mb=1024", "-malloc_limit_mb=256", "-timeout=10", "-seed=1",
          "-print_final_stats=1", "-dict=" + os.path.join(os.path.dirname(os.path.abspath(__file__)), "words.dict")]


def build(program, tell, bundles, devices, *command):
    probe = subprocess.run([command[0], "-fsanitize=fuzzer,address", "-xc", "-", "-o", os.devnull], capture_output=True,
                           text=True, check=False,
                           input="int LLVMFuzzerTestOneInput(const char *data, long size) { return !data && size; }")
    if probe.returncode:
        print(f"NOT RUN: {command[0]} has no libFuzzer: {probe.stderr[-300:]}")
        return SKIPPED
    corpus.main(tell, bundles, devices, program + ".seeds")
    return subprocess.run([*command, "-o", program], check=False).returncode


def run(program, name, limit):
    if not os.path.exists(program):
        print(f"NOT RUN: {program} was not built")
        return SKIPPED
    with tempfile.TemporaryDirectory() as room:
        seeds = shutil.copytree(os.path.join(program + ".seeds", name), os.path.join(room, name))
        count = len(os.listdir(seeds))
        done = subprocess.run([program, seeds, f"-artifact_prefix={room}/", limit, *LIMITS],
                              env=dict(os.environ, CLADE_FUZZ=name), capture_output=True, text=True, check=False)
        print(done.stderr[-4000:])
        executed = int(done.stderr.split("stat::number_of_executed_units:")[1].split()[0]) if not done.returncode else 0
        if done.returncode == 0 and executed <= count:
            print(f"only {executed} inputs were tried")
            return 1
        return done.returncode


if __name__ == "__main__":
    sys.exit({"build": build, "run": run}[sys.argv[1]](*sys.argv[2:]))

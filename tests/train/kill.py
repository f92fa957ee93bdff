"""Kills trainings at random times, half of them while a checkpoint is written, and resumes them each time: the final
weights are those of an undisturbed training.

    kill.py CLADE KILLS
"""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

from common import CLADE, result, train
from images import images

KILLS = int(sys.argv[2])
random.seed(11)


def options(data, folder):
    return ["--model", "mlp", "--data", data, "--batch", 16, "--epochs", 6, "--optimizer", "adam", "--checkpoint-steps",
            3, "--checkpoint-dir", folder, "--resume"]


def count_changes(arguments, folder, room):
    """Number of file modifications in an undisturbed training."""
    count = pathlib.Path(room) / "count"
    done = train(*arguments, env={"LD_PRELOAD": os.environ["CLADE_FILE_KILLER"], "CLADE_KILL_BELOW": str(folder),
                                  "CLADE_KILL_COUNT": str(count)})
    return result(done), int(count.read_text())


def kill_at_change(arguments, folder, number):
    done = train(*arguments, env={"LD_PRELOAD": os.environ["CLADE_FILE_KILLER"], "CLADE_KILL_BELOW": str(folder),
                                  "CLADE_KILL_AT": str(number)})
    assert done.returncode in (0, -signal.SIGKILL), done
    return done.returncode != 0


def kill_after(arguments, seconds):
    with subprocess.Popen([CLADE, "train", "--json", *map(str, arguments)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as process:
        time.sleep(seconds)
        process.kill()
        words = process.communicate(timeout=60)[1]
    assert process.returncode in (0, -signal.SIGKILL), words
    return process.returncode != 0


def main():
    with tempfile.TemporaryDirectory(prefix="clade-test-") as room:
        data = images(room)
        whole, changes = count_changes(options(data, f"{room}/whole"), f"{room}/whole", room)
        assert changes > 100, f"only {changes} changes were seen: the killer is not loaded"
        begun = time.monotonic()
        again = result(train(*options(data, f"{room}/again")))
        seconds = time.monotonic() - begun
        assert again["weights_sha256"] == whole["weights_sha256"]
        kills = chains = 0
        while kills < KILLS:
            folder = f"{room}/chain{chains}"
            arguments = options(data, folder)
            for _ in range(10):  # each resumes where the previous one was killed
                while_writing = kills % 2 == 0
                killed = (kill_at_change(arguments, folder, random.randrange(1, changes // 4)) if while_writing
                          else kill_after(arguments, random.uniform(0.05, 0.9) * seconds))
                kills += killed
                if not killed or kills == KILLS:
                    break
            end = result(train(*arguments))
            assert end["weights_sha256"] == whole["weights_sha256"], f"chain {chains}: other weights"
            assert end["test_accuracy"] == whole["test_accuracy"]
            chains += 1
        print(f"{kills} kills in {chains} trainings of {whole['steps']} steps; one changes files {changes} times; "
              f"the same weights each time")


main()

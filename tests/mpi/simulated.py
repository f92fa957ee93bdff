"""Simulates a training step on many ranks with SimGrid and compares it with the prediction of `clade bench scale`
(docs/scale.md).

    clade bench scale --model resnet18 --ranks 2 --json > step.json
    simulated.py LIBCLADE.A step.json --ranks 2,8,64,512 --link 50,10

The measured step gives the times at which buckets are ready; messages are those of the library LIBCLADE.A
(simulated_step.c). Requires smpicc and smpirun (Debian: libsimgrid-dev).
"""
import argparse
import json
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# A link transfers messages one after the other, like a connection; its measured bandwidth includes headers and
# acknowledgments. This machine's CPU time and polling take no simulated time.
HOW = ["network/model:CM02", "network/crosstraffic:0", "network/TCP-gamma:1e15", "maxmin/concurrency-limit:1",
       "smpi/simulate-computation:no", "smpi/test:0", "smpi/wtime:0"]
# Messages are sent eagerly, like Open MPI's below its eager limit, before the receiver is ready.
EAGER = [f"smpi/{which}:{640 << 10}" for which in ("async-small-thresh", "send-is-detached-thresh")]


def missing():
    """What is missing, or None."""
    return next((tool for tool in ("smpicc", "smpirun") if not shutil.which(tool)), None)


def switch(ranks, latency, bandwidth, tree=None):
    """A platform: hosts at one switch, or at leaves of a fat tree: (hosts, uplinks) of each. latency: between hosts, or
    in a tree between hosts of a leaf."""
    shape = ""
    if tree:
        hosts, uplinks = tree
        shape = f' topology="FAT_TREE" topo_parameters="2;{hosts},{ranks // hosts};1,{uplinks};1,1"'
    return f"""<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="all" routing="Full">
    <cluster id="hosts" prefix="h" suffix="" radical="0-{ranks - 1}" speed="1Gf" bw="{bandwidth:.0f}Bps"
             lat="{latency / 2:.12f}s" sharing_policy="SPLITDUPLEX"{shape}/>
  </zone>
</platform>
"""


class Simulator:
    """Builds the program in a temporary folder."""

    def __init__(self, libclade, program="simulated_step", model=os.path.join("cli", "bench", "scale_model.c")):
        self.room = tempfile.TemporaryDirectory(prefix="clade-simgrid-")
        self.program = os.path.join(self.room.name, program)
        source = os.path.join(ROOT, "src")
        subprocess.run(["smpicc", "-std=gnu11", "-O2", "-Wall", "-DSMPI_NO_OVERRIDE_MALLOC", f"-I{source}",
                        f"-I{os.path.join(ROOT, 'include')}", os.path.join(HERE, f"{program}.c"),
                        os.path.join(source, model), libclade, "-o", self.program, "-lm", "-lpthread"], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.room.cleanup()

    def path(self, name, text):
        path = os.path.join(self.room.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def step(self, ranks, latency, bandwidth, buckets, poll=1e-4, add=4e9, rest=0, wire=1, tree=None, eager=False):
        """In seconds, bytes, and bytes per second; buckets: (bytes, ready), … in the order in which they become ready.
        """
        given = [latency, bandwidth, poll, add, rest, wire, *(value for bucket in buckets for value in bucket)]
        return self.run(ranks, switch(ranks, latency, bandwidth, tree), map(repr, given), eager)

    def run(self, ranks, platform, arguments, eager=False):
        """The JSON output of the program."""
        how = HOW + EAGER if eager else HOW
        hosts = self.path("hosts", "".join(f"h{rank}\n" for rank in range(ranks)))
        done = subprocess.run(["smpirun", "-np", str(ranks), "-platform", self.path("platform.xml", platform), "-hostfile", hosts,
                               "-no-privatize", "--log=root.thresh:warning", *(f"--cfg={option}" for option in how),
                               self.program, *arguments], capture_output=True, text=True, cwd=self.room.name, check=False)
        if done.returncode:
            raise RuntimeError(f"smpirun ended with {done.returncode}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout)


def numbers(text):
    return [float(word) for word in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("libclade", help="the static library, libclade.a")
    parser.add_argument("step", help="what `clade bench scale --json` told")
    parser.add_argument("--ranks", type=numbers, default=[2, 8, 64], help="for how many (2,8,64)")
    parser.add_argument("--link", type=numbers, help="microseconds,10^9 bits a second (those of STEP)")
    parser.add_argument("--tree", type=numbers, help="hosts,uplinks of each switch of a fat tree (all hosts at one switch)")
    parser.add_argument("--speed", type=float, default=1, help="of devices that are so many times as fast (1)")
    parser.add_argument("--eager", action="store_true", help="messages do not wait for their receivers")
    parser.add_argument("--half", action="store_true", help="16 bits on the wire")
    given = parser.parse_args()
    if missing():
        parser.error(f"there is no {missing()}; Debian has it in libsimgrid-dev")
    with open(given.step, encoding="utf-8") as file:
        told = json.load(file)
    model, link = told["model"], told["link"]
    latency, bandwidth = link["latency_seconds"], link["bandwidth_gbs"] * 1e9
    if given.link:
        latency, bandwidth = given.link[0] * 1e-6, given.link[1] * 1e9 / 8
    buckets = [(bucket["bytes"], bucket["ready_seconds"] / given.speed) for bucket in model["buckets"]]
    alone = model["alone_seconds"] / given.speed
    print(f"{model['name']}, {latency * 1e6:g} us, {bandwidth * 8e-9:g} Gbit/s; a step alone takes {alone * 1e3:.1f} ms\n"
          f"{'ranks':>6} {'predicted ms':>13} {'simulated ms':>13} {'ratio':>7} {'exposed':>9} {'exposed':>9} {'efficiency':>11}")
    with Simulator(given.libclade) as simulator:
        for ranks in map(int, given.ranks):
            found = simulator.step(ranks, latency, bandwidth, buckets, link["poll_seconds"], link["add_gbs"] * 1e9,
                                   model["rest_seconds"] / given.speed, 0.5 if given.half else 1,
                                   tuple(map(int, given.tree)) if given.tree else None, given.eager)
            predicted, simulated = max(found["predicted_seconds"], alone), max(found["seconds"], alone)
            print(f"{ranks:6} {predicted * 1e3:13.1f} {simulated * 1e3:13.1f} {predicted / simulated:7.3f} "
                  f"{found['predicted_exposed_seconds'] * 1e3:9.2f} {found['exposed_seconds'] * 1e3:9.2f} "
                  f"{alone / simulated:11.1%}", flush=True)


if __name__ == "__main__":
    main()

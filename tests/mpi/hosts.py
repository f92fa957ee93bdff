"""Several emulated hosts on this machine, for mpirun: network namespaces connected to a bridge by links of limited
bandwidth.

    if __name__ == "__main__":
        hosts.enter()                       # restarts this script in its own namespaces
        with hosts.Hosts(2, "1gbit") as both:
            subprocess.run(both.command(["clade", "train", …]))

A host is a process with its own network and host name. The bridge and mpirun are in the script's network, which is
isolated from the machine's. Everything ends with the script, however it ends: the kernel kills all processes of its PID
namespace, and the networks disappear with them.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

SKIPPED = 77  # ctest's exit status for skipped tests
NET = "10.250.0"
# The burst exceeds the 64 KiB that TCP passes on at once: otherwise the kernel would split them into packets of 1500
# bytes, for which busy processors have no time. 80 KiB are 0.7 ms at 1 Gbit/s.
LIMITS = ["burst", "80kb", "limit", "1mb"]
INSIDE = "CLADE_TEST_HOSTS"


def ip(*words, tool="ip"):
    subprocess.run([tool, *words], check=True, capture_output=True, text=True)


def refusal():
    """Reason why hosts cannot be created here, or None."""
    script = ("ip link add b0 type bridge && ip link add a0 type veth peer name a1 && ip link set a1 master b0 && "
              f"tc qdisc add dev a0 root tbf rate 1gbit {' '.join(LIMITS)}")
    try:
        done = subprocess.run(["unshare", "--net", "--pid", "--uts", "--mount-proc", "--fork", "sh", "-c", script],
                              capture_output=True, text=True, timeout=60, check=False)
    except OSError as e:
        return str(e)
    return done.stderr.strip() or f"status {done.returncode}" if done.returncode else None


def enter():
    """Continues in new namespaces, or ends as skipped."""
    if os.environ.get(INSIDE):
        return
    why = refusal()
    if why:
        print(f"skipped: no hosts can be made here: {why}")
        sys.exit(SKIPPED)
    os.execvpe("unshare", ["unshare", "--net", "--pid", "--uts", "--mount-proc", "--fork", "--kill-child", sys.executable, "-B",
                           *sys.argv], {**os.environ, INSIDE: "1"})


class Hosts:
    """Hosts h1, h2, …, with links of `rate` in each direction; None: unlimited."""

    def __init__(self, n, rate=None):
        self.names = [f"h{i + 1}" for i in range(n)]
        self.rate = rate
        self.keepers = []
        self.room = tempfile.TemporaryDirectory(prefix="clade-hosts-")

    def __enter__(self):
        try:
            ip("link", "set", "lo", "up")
            ip("link", "add", "switch", "type", "bridge")
            ip("addr", "add", f"{NET}.1/24", "dev", "switch")
            ip("link", "set", "switch", "up")
            for i, name in enumerate(self.names):
                self.add(name, f"{NET}.{i + 2}/24")
            self.write_agent()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for keeper in self.keepers:
            keeper.kill()
            keeper.communicate()
        subprocess.run(["ip", "link", "delete", "switch"], capture_output=True, check=False)
        for name in self.names:  # an unused network disappears a moment later
            subprocess.run(["ip", "link", "delete", f"to-{name}"], capture_output=True, check=False)
        self.room.cleanup()

    def add(self, name, address):
        keep = f"hostname {name} && echo && exec sleep infinity"
        keeper = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", keep], stdout=subprocess.PIPE)
        self.keepers.append(keeper)
        if not keeper.stdout.readline():
            raise OSError(f"host {name} cannot be made")
        ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", str(keeper.pid))
        ip("link", "set", f"to-{name}", "master", "switch", "up")
        for words in ("link set lo up", f"addr add {address} dev eth0", "link set eth0 up"):
            self.inside(name, "ip", *words.split())
        if self.rate:
            shape = ["qdisc", "add", "dev", "eth0", "root", "tbf", "rate", self.rate, *LIMITS]
            self.inside(name, "tc", *shape)
            shape[3] = f"to-{name}"
            ip(*shape, tool="tc")

    def entry(self, name):
        return ["nsenter", "-t", str(self.keepers[self.names.index(name)].pid), "-n", "-u"]

    def inside(self, name, *command):
        return subprocess.run([*self.entry(name), *command], check=True, capture_output=True, text=True).stdout

    def write_agent(self):
        """The program that mpirun calls instead of ssh: agent HOST COMMAND…"""
        self.agent = os.path.join(self.room.name, "agent")
        cases = [f"{name}) exec {shlex.join(self.entry(name))} sh -c \"$*\" ;;" for name in self.names]
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write("\n".join(["#!/bin/sh", "host=$1", "shift", "case $host in", *cases, "esac", "exit 1", ""]))
        os.chmod(self.agent, 0o755)

    def command(self, command, per_host=1, mpirun="mpirun"):
        """The mpirun command that starts `command` on each host."""
        hosts = ",".join(f"{name}:{per_host}" for name in self.names)
        return [mpirun, "--host", hosts, "-np", str(per_host * len(self.names)), "--map-by", "slot", "--bind-to", "none",
                "--mca", "plm_rsh_agent", self.agent, "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca",
                "btl_tcp_if_include", f"{NET}.0/24", "--mca", "oob_tcp_if_include", f"{NET}.0/24", *command]

    def counters(self, name):
        """Bytes sent and received by a host's interface."""
        told = json.loads(self.inside(name, "ip", "-s", "-j", "link", "show", "eth0"))[0]["stats64"]
        return told["tx"]["bytes"], told["rx"]["bytes"]

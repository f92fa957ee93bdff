"""Several hosts on this machine, for mpirun: network namespaces, whose links to a bridge have a bandwidth.

    if __name__ == "__main__":
        hosts.enter()                       # starts this script again, in namespaces of its own
        with hosts.Hosts(2, "1gbit") as both:
            subprocess.run(both.command(["clade", "train", …]))

A host is a process with a network and a host name of its own. The bridge and mpirun are in the network of the script, from
which no way leads to the machine's. All of it ends with the script, whatever ends that: the kernel kills all processes of
its PID namespace, and with them go the networks.
"""
import json
import os
import shlex
import subprocess
import sys
import tempfile

SKIPPED = 77  # what ctest takes for a test that was skipped
NET = "10.250.0"
# What a link may do at once is more than the 64 KiB of data that TCP hands over together: the kernel would cut each of
# them into packets of 1500 bytes, for which two processors that are busy have no time. 80 KiB are 0.7 ms at 1 Gbit/s.
LIMITS = ["burst", "80kb", "limit", "1mb"]
INSIDE = "CLADE_TEST_HOSTS"


def ip(*words, tool="ip"):
    subprocess.run([tool, *words], check=True, capture_output=True, text=True)


def refusal():
    """Why hosts cannot be made here; None: they can."""
    script = ("ip link add b0 type bridge && ip link add a0 type veth peer name a1 && ip link set a1 master b0 && "
              f"tc qdisc add dev a0 root tbf rate 1gbit {' '.join(LIMITS)}")
    try:
        done = subprocess.run(["unshare", "--net", "--pid", "--uts", "--mount-proc", "--fork", "sh", "-c", script],
                              capture_output=True, text=True, timeout=60, check=False)
    except OSError as e:
        return str(e)
    return done.stderr.strip() or f"status {done.returncode}" if done.returncode else None


def enter():
    """Goes on in namespaces of its own, or ends as skipped."""
    if os.environ.get(INSIDE):
        return
    why = refusal()
    if why:
        print(f"skipped: no hosts can be made here: {why}")
        sys.exit(SKIPPED)
    os.execvpe("unshare", ["unshare", "--net", "--pid", "--uts", "--mount-proc", "--fork", "--kill-child", sys.executable, "-B",
                           *sys.argv], {**os.environ, INSIDE: "1"})


class Hosts:
    """Hosts h1, h2, …, each way of whose link carries `rate`; None: no limit."""

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
        for name in self.names:  # a network that nobody is in any more ends a moment later
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
        """What mpirun calls in place of ssh: agent HOST COMMAND…"""
        self.agent = os.path.join(self.room.name, "agent")
        cases = [f"{name}) exec {shlex.join(self.entry(name))} sh -c \"$*\" ;;" for name in self.names]
        with open(self.agent, "w", encoding="utf-8") as file:
            file.write("\n".join(["#!/bin/sh", "host=$1", "shift", "case $host in", *cases, "esac", "exit 1", ""]))
        os.chmod(self.agent, 0o755)

    def command(self, command, per_host=1, mpirun="mpirun"):
        """mpirun's, which starts `command` on each host."""
        hosts = ",".join(f"{name}:{per_host}" for name in self.names)
        return [mpirun, "--host", hosts, "-np", str(per_host * len(self.names)), "--map-by", "slot", "--bind-to", "none",
                "--mca", "plm_rsh_agent", self.agent, "--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca",
                "btl_tcp_if_include", f"{NET}.0/24", "--mca", "oob_tcp_if_include", f"{NET}.0/24", *command]

    def counters(self, name):
        """Bytes that the interface of a host has sent and received."""
        told = json.loads(self.inside(name, "ip", "-s", "-j", "link", "show", "eth0"))[0]["stats64"]
        return told["tx"]["bytes"], told["rx"]["bytes"]

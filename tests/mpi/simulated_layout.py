"""Simulates layouts of `clade plan` with SimGrid and compares them with its predictions (docs/scale.md).

    clade plan --model gpt --ranks 64 --memory 40 … --json > plan.json
    simulated_layout.py LIBCLADE.A plan.json

Passes take the predicted time in the schedule's order; messages, sums and gathers are simulated messages
(simulated_layout.c). Requires smpicc and smpirun (Debian: libsimgrid-dev).
"""
import argparse
import json
import os
import subprocess

import simulated

SHARDS = ["none", "optimizer", "gradients"]
KINDS = ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"]
WHEN = ["forward", "backward", "begin", "end"]


def numbers(layout, link):
    """The input file of simulated_layout.c."""
    pieces = [[piece["forward"]["compute_seconds"], piece["backward"]["compute_seconds"], piece["parameter_bytes"]]
              for piece in layout["pieces"]]
    moves = [[] for _ in pieces]
    for move in layout["moves"]:
        moves[move["piece"]].append([int(move["backward"]), KINDS.index(move["kind"]), move["bytes"], move["times"]])
    found = [layout["data"], layout["tensor"], layout["pipeline"], layout["micro_batches"], layout["interleave"],
             SHARDS.index(layout["shard"]), link["poll_seconds"], link["add_gbs"] * 1e9]
    for piece, its in zip(pieces, moves):
        found += piece + [len(its)] + sum(its, [])
    found.append(len(layout["messages"]))
    for message in layout["messages"]:
        found += [message["from"], message["to"], WHEN.index(message["when"]), message["bytes"]]
    return found + [layout["update_seconds"]]


def nodes(ranks, link):
    """A platform: each host has a link within its node and one to other nodes, each full duplex."""
    per_node = link["node_ranks"]
    kinds = {"near": (link["node_latency_seconds"], link["node_bandwidth_gbs"]),
             "far": (link["latency_seconds"], link["bandwidth_gbs"])}
    lines = [f'<host id="h{rank}" speed="1Gf"/>' for rank in range(ranks)]
    for kind, (latency, bandwidth) in kinds.items():
        lines += [f'<link id="{kind}{way}{rank}" bandwidth="{bandwidth * 1e9:.0f}Bps" latency="{latency / 2:.12f}s"/>'
                  for rank in range(ranks) for way in ("out", "in")]
    for a in range(ranks):
        for b in range(ranks):
            kind = "near" if a // per_node == b // per_node else "far"
            if a != b:
                lines.append(f'<route src="h{a}" dst="h{b}" symmetrical="NO"><link_ctn id="{kind}out{a}"/>'
                             f'<link_ctn id="{kind}in{b}"/></route>')
    inside = "\n".join(lines)
    return f"""<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
<zone id="all" routing="Full">
{inside}
</zone>
</platform>
"""


class Simulator(simulated.Simulator):
    """Builds the program in a temporary folder."""

    def __init__(self, libclade):
        super().__init__(libclade, "simulated_layout", os.path.join("cli", "plan", "schedule.c"))

    def layout(self, layout, link, ranks):
        """Seconds of a step."""
        given = self.path("layout", " ".join(map(repr, numbers(layout, link))))
        return self.run(ranks, nodes(ranks, link), [given])["seconds"]


def name(layout):
    return (f"{layout['data']} x {layout['tensor']} x {layout['pipeline']}, {layout['micro_batches']}"
            f"{' x 2' if layout['interleave'] > 1 else ''}, {layout['shard']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("libclade", help="the static library, libclade.a")
    parser.add_argument("plan", help="what `clade plan --json` told")
    parser.add_argument("--first", type=int, default=8, help="how many of its layouts (8)")
    given = parser.parse_args()
    if simulated.missing():
        parser.error(f"there is no {simulated.missing()}; Debian has it in libsimgrid-dev")
    with open(given.plan, encoding="utf-8") as file:
        plan = json.load(file)
    print(f"{plan['model']}, {plan['ranks']} ranks, {plan['batch']} samples\n"
          f"{'data x tensor x pipeline, micro-batches, shard':<48} {'predicted ms':>13} {'simulated ms':>13} {'ratio':>7}")
    with Simulator(given.libclade) as simulator:
        for layout in plan["layouts"][:given.first]:
            seconds = simulator.layout(layout, plan["link"], plan["ranks"])
            print(f"{name(layout):<48} {layout['seconds'] * 1e3:13.1f} {seconds * 1e3:13.1f} {layout['seconds'] / seconds:7.3f}",
                  flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of the all-to-all in simulation: the same code as on a cluster, run by SimGrid's SMPI on
platform descriptions (platform.cpp). Deterministic: the same figures every time. SIMULATED figures:
the network is ideal (fluid, lossless, adaptive routing), the cost of a message a guess of 0.8 us.

Rows: microseconds of our algorithms, of pairwise and of the fastest of the vendors' selections
(MPI_Alltoall and MPI_Alltoallv), what `auto` chooses by the cost formulas (never a vendor's), and
its time over the best of all; with --moe the ratios of the fastest vendor to ours. An algorithm
that ends in /N lets N messages of a hop come at once."""
import argparse
import os
import signal
import subprocess
import tempfile
import time

MACHINES = ("frontier", "h100", "ethernet")
SIZES = (256, 1024, 4096, 16384, 65536, 262144)
OURS = ("flat", "node", "rail", "node_pair")
VENDORS = ("default", "ompi", "mpich", "mvapich2", "impi")
PER_NODE = 8
# Nodes from which on everything at once is more than the simulator can do: fewer messages in
# flight, fewer sizes.
MANY_NODES = 32
# Beyond 4 nodes events closer than this many seconds are one.
COARSE = {"surf/precision": "1e-7"}

# SimGrid's defaults are those of Gigabit Ethernet of 2010 (docs/alltoall.md, "In simulation").
SETTINGS = {
    "smpi/simulate-computation": "no", "smpi/host-speed": "1e9f", "smpi/cpu-threshold": "0",
    "network/model": "CM02", "network/weight-S": "0", "network/crosstraffic": "0",
    "network/TCP-gamma": "0", "smpi/bw-factor": "0:0.95", "smpi/lat-factor": "0:1",
    "smpi/os": "0:1e-6:0", "smpi/ois": "0:4e-7:0", "smpi/or": "0:4e-7:0", "smpi/test": "1e-7",
    "smpi/iprobe": "1e-7", "surf/precision": "1e-9", "contexts/stack-size": "256",
    "smpi/privatization": "no",  # ranks have no variables of their own
    "smpi/allgather": "bruck",  # before anything is timed: few messages
}


class Simulator:
    def __init__(self, smpirun, program, platform, seconds=120):
        self.smpirun, self.program, self.platform = smpirun, program, platform
        self.seconds = seconds

    def run(self, machine, nodes, arguments, settings=None, check=False):
        """[(algorithm, bytes, microseconds)]; what was ready where it does not end in time."""
        ranks = nodes * PER_NODE
        environment = dict(os.environ, PIPER_SIMULATED_MACHINE=machine,
                           PIPER_SIMULATED_NODES=str(nodes),
                           PIPER_NODE=",".join(str(r // PER_NODE) for r in range(ranks)))
        options = {**SETTINGS, **(COARSE if nodes > 4 else {}), **(settings or {})}
        if check:
            environment["PIPER_SIMULATED_CHECK"] = "1"
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
            hosts.write("".join(f"node-{r}\n" for r in range(ranks)))
            hosts.flush()
            command = [self.smpirun, "-np", str(ranks), "-platform", self.platform, "-hostfile",
                       hosts.name, *(f"--cfg={k}:{v}" for k, v in options.items()),
                       "--log=root.thresh:error", self.program, *arguments]
            # smpirun is a script: what it starts ends with it.
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, env=environment, start_new_session=True) as process:
                late = False
                try:
                    output, errors = process.communicate(timeout=self.seconds)
                except subprocess.TimeoutExpired:
                    late = True
                    os.killpg(process.pid, signal.SIGKILL)
                    output, errors = process.communicate()
        if process.returncode != 0 and not late:
            raise RuntimeError(f"{' '.join(command)}\n{output}{errors}")
        rows = [line.split(",") for line in output.splitlines() if line.count(",") == 2]
        return [(name, int(size), float(us)) for name, size, us in rows]

    def pairs(self, machine, nodes, sizes, algorithms, **options):
        return self.run(machine, nodes, ["pairs", ",".join(map(str, sizes)), ",".join(algorithms)],
                        **options)

    def moe(self, machine, nodes, sizes, algorithms, topk=8, experts=256, limit=0, groups=0,
            **options):
        return self.run(machine, nodes, ["moe", ",".join(map(str, sizes)), str(topk), str(experts),
                                         str(limit), str(groups), ",".join(algorithms)], **options)


def collect(rows, into, prefix=""):
    for name, size, us in rows:
        into.setdefault(size, {})[prefix + name] = us


def ours(nodes):
    """Algorithms and the choice, as many messages at once as the simulator can do."""
    names = [name for name in (*OURS, "auto") if nodes < MANY_NODES or name != "node_pair"]
    return [name + "/2" for name in names] if nodes >= MANY_NODES else names


def plain(simulator, machine, nodes, sizes):
    """{size: {algorithm: us}}: ours, pairwise, and the vendors' selections."""
    table = {}
    # Each by itself: one that does not end takes no other with it.
    for name in ours(nodes):
        collect(simulator.pairs(machine, nodes, sizes, [name]), table)
    collect(simulator.pairs(machine, nodes, sizes, ["vendor"],
                            settings={"smpi/alltoallv": "pair"}), table, "pairwise:")
    for vendor in VENDORS:
        for call in ("vendor", "mpi_alltoall"):
            collect(simulator.pairs(machine, nodes, sizes, [call],
                                    settings={"smpi/coll-selector": vendor}), table, vendor + ":")
    return table


def is_vendors(name):
    return name.split(":")[0] in VENDORS


def choice(row):
    """(algorithm chosen, us) of a row."""
    name = next((name for name in row if name.startswith("auto")), None)
    return (name.partition(":")[2], row[name]) if name else (None, None)


def best(row, wanted):
    names = [name for name in row if wanted(name)]
    if not names:
        return None, None
    name = min(names, key=row.get)
    return name, row[name]


def number(value, form="{:.1f}"):
    return "-" if value is None else form.format(value)


def over(a, b):
    return number(a / b, "{:.2f}") if a and b else "-"


def print_plain(machine, nodes, table):
    print(f"# simulated: {machine}, {nodes} nodes x {PER_NODE}, plain exchange, microseconds")
    shown = [name for name in ours(nodes) if not name.startswith("auto")]
    print(f"{'B a pair':>9} " + " ".join(f"{name:>10}" for name in shown) +
          f" {'pairwise':>10} {'best vendor':>32} {'choice':>9} {'us':>9} {'choice/best':>11}"
          f" {'pairwise/choice':>15} {'vendor/choice':>13}")
    for size, row in sorted(table.items()):
        vendor, vendor_us = best(row, is_vendors)
        _, best_us = best(row, lambda name: True)
        chosen, us = choice(row)
        pairwise = row.get("pairwise:vendor")
        print(f"{size:>9} " + " ".join(f"{number(row.get(n)):>10}" for n in shown) +
              f" {number(pairwise):>10} {f'{vendor} {number(vendor_us)}':>32} {chosen or '-':>9}"
              f" {number(us):>9} {over(us, best_us):>11} {over(pairwise, us):>15}"
              f" {over(vendor_us, us):>13}", flush=True)


def print_moe(simulator, machine, nodes, sizes, limit, groups):
    few = nodes >= MANY_NODES
    names = ["flat", "node", "node_dedup", *(["rack_dedup"] if groups else [])]
    names = [name + "/2" for name in names] if few else names
    print(f"# simulated: {machine}, {nodes} nodes x {PER_NODE}, dispatch + combine, top-8 of "
          f"{max(256, nodes * PER_NODE)}, at most {limit or nodes} nodes a token"
          f"{f' in {groups} groups of 4' if groups else ''}, microseconds")
    options = {"experts": max(256, nodes * PER_NODE), "limit": limit, "groups": groups}
    table = {}
    for name in names:
        collect(simulator.moe(machine, nodes, sizes, [name], **options), table)
    for vendor in () if few else VENDORS:
        collect(simulator.moe(machine, nodes, sizes, ["vendor"], **options,
                              settings={"smpi/coll-selector": vendor}), table, vendor + ":")
    print(f"{'B a pair':>9} " + " ".join(f"{name:>12}" for name in names) +
          f" {'best vendor':>24} {'flat/dedup':>10} {'vendor/dedup':>12}")
    for size, row in sorted(table.items()):
        vendor, vendor_us = best(row, is_vendors)
        _, dedup = best(row, lambda name: "dedup" in name)
        print(f"{size:>9} " + " ".join(f"{number(row.get(n)):>12}" for n in names) +
              f" {f'{vendor} {number(vendor_us)}':>24} {over(row.get(names[0]), dedup):>10}"
              f" {over(vendor_us, dedup):>12}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smpirun")
    parser.add_argument("program", help="lib/piper_simulated.so of a build")
    parser.add_argument("platform", help="lib/piper_simulated_platform.so of a build")
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--nodes", default="4,16")
    parser.add_argument("--sizes", help="bytes a pair; default 256 to 262144, 1024 and 65536 from "
                        f"{MANY_NODES} nodes on")
    parser.add_argument("--moe", action="store_true", help="dispatch and combine of tokens")
    parser.add_argument("--limit", type=int, default=4, help="nodes a token may reach")
    parser.add_argument("--groups", type=int, default=0, help="switch groups a token may reach")
    parser.add_argument("--seconds", type=float, default=120, help="limit of one simulation")
    options = parser.parse_args()
    simulator = Simulator(options.smpirun, options.program, options.platform, options.seconds)
    for machine in options.machines.split(","):
        for nodes in map(int, options.nodes.split(",")):
            sizes = [1024, 65536] if nodes >= MANY_NODES else SIZES
            if options.sizes:
                sizes = [int(size) for size in options.sizes.split(",")]
            began = time.monotonic()
            if options.moe:
                print_moe(simulator, machine, nodes, sizes, min(options.limit, nodes),
                          options.groups)
            else:
                print_plain(machine, nodes, plain(simulator, machine, nodes, sizes))
            print(f"# {time.monotonic() - began:.0f} s of simulator", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times of the all-to-all in simulation: the same code as on a cluster, run by SimGrid's SMPI on
platform descriptions (platform.cpp). Deterministic: the same figures every time. SIMULATED figures:
the network is ideal (fluid, lossless, adaptive routing), the cost of a message a guess of 1 us.

usage: sweep.py SMPIRUN SIMULATED_SO PLATFORM_SO [--machines frontier,h100,ethernet] [--nodes 4,16]
                [--sizes 256,...] [--moe] [--seconds 120]
Rows: microseconds of our algorithms, of pairwise, of the vendors' selections (fastest of MPI_Alltoall
and MPI_Alltoallv), and ratios above 1 where ours is faster."""
import argparse
import os
import subprocess
import tempfile

MACHINES = ("frontier", "h100", "ethernet")
SIZES = (256, 1024, 4096, 16384, 65536, 262144)
OURS = ("flat", "node", "rail", "node_pair")
VENDORS = ("default", "ompi", "mpich", "mvapich2", "impi")
PER_NODE = 8

# SimGrid's defaults are those of Gigabit Ethernet of 2010 (docs/alltoall.md, "In simulation").
SETTINGS = {
    "smpi/simulate-computation": "no", "smpi/host-speed": "1e9f", "smpi/cpu-threshold": "0",
    "network/model": "CM02", "network/weight-S": "0", "network/crosstraffic": "0",
    "network/TCP-gamma": "0", "smpi/bw-factor": "0:0.95", "smpi/lat-factor": "0:1",
    "smpi/os": "0:1e-6:0", "smpi/ois": "0:4e-7:0", "smpi/or": "0:4e-7:0", "smpi/test": "1e-7",
    "smpi/iprobe": "1e-7", "surf/precision": "1e-9", "contexts/stack-size": "256",
}


class Simulator:
    def __init__(self, smpirun, program, platform, seconds=120):
        self.smpirun, self.program, self.platform = smpirun, program, platform
        self.seconds = seconds

    def run(self, machine, nodes, arguments, settings=None, check=False):
        """[(algorithm, bytes, microseconds)]; None where it does not end in time."""
        ranks = nodes * PER_NODE
        environment = dict(os.environ, PIPER_SIMULATED_MACHINE=machine,
                           PIPER_SIMULATED_NODES=str(nodes),
                           PIPER_NODE=",".join(str(r // PER_NODE) for r in range(ranks)))
        options = dict(SETTINGS, **(settings or {}))
        if check:
            environment["PIPER_SIMULATED_CHECK"] = "1"
        with tempfile.NamedTemporaryFile("w", suffix=".hosts") as hosts:
            hosts.write("".join(f"node-{r}\n" for r in range(ranks)))
            hosts.flush()
            command = [self.smpirun, "-np", str(ranks), "-platform", self.platform, "-hostfile",
                       hosts.name, *(f"--cfg={k}:{v}" for k, v in options.items()),
                       "--log=root.thresh:error", self.program, *arguments]
            try:
                done = subprocess.run(command, capture_output=True, text=True, env=environment,
                                      timeout=self.seconds)
            except subprocess.TimeoutExpired:
                return None
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        rows = [line.split(",") for line in done.stdout.splitlines() if line.count(",") == 2]
        return [(name, int(size), float(us)) for name, size, us in rows]

    def pairs(self, machine, nodes, sizes, algorithms, **options):
        return self.run(machine, nodes, ["pairs", ",".join(map(str, sizes)), ",".join(algorithms)],
                        **options)

    def moe(self, machine, nodes, sizes, algorithms, topk=8, experts=256, limit=0, **options):
        return self.run(machine, nodes, ["moe", ",".join(map(str, sizes)), str(topk), str(experts),
                                         str(limit), ",".join(algorithms)], **options)


def collect(rows, into, prefix=""):
    for name, size, us in rows or []:
        into.setdefault(size, {})[prefix + name] = us


def plain(simulator, machine, nodes, sizes):
    """{size: {algorithm: us}}: ours, pairwise, and the vendors' selections."""
    table = {}
    for algorithm in OURS:
        collect(simulator.pairs(machine, nodes, sizes, [algorithm]), table)
    collect(simulator.pairs(machine, nodes, sizes, ["vendor"],
                            settings={"smpi/alltoallv": "pair"}), table, "pairwise:")
    for vendor in VENDORS:
        collect(simulator.pairs(machine, nodes, sizes, ["vendor", "mpi_alltoall"],
                                settings={"smpi/coll-selector": vendor}), table, vendor + ":")
    return table


def best(row, wanted):
    names = [name for name in row if wanted(name)]
    if not names:
        return None, None
    name = min(names, key=row.get)
    return name, row[name]


def print_plain(machine, nodes, table):
    print(f"# simulated: {machine}, {nodes} nodes x {PER_NODE}, plain exchange, microseconds")
    print(f"{'B a pair':>9} " + " ".join(f"{name:>10}" for name in OURS) +
          f" {'pairwise':>10} {'best vendor':>32} {'pairwise/ours':>14} {'vendor/ours':>12}")
    for size, row in sorted(table.items()):
        _, ours = best(row, lambda name: name in OURS)
        vendor, vendor_us = best(row, lambda name: name.split(":")[0] in VENDORS)
        pairwise = row.get("pairwise:vendor")

        def number(value, form):
            return "-" if value is None else form.format(value)
        print(f"{size:>9} " + " ".join(f"{number(row.get(n), '{:.1f}'):>10}" for n in OURS) +
              f" {number(pairwise, '{:.1f}'):>10} {f'{vendor} ' + number(vendor_us, '{:.1f}'):>32}"
              f" {number(pairwise and ours and pairwise / ours, '{:.2f}'):>14}"
              f" {number(vendor_us and ours and vendor_us / ours, '{:.2f}'):>12}")


def print_moe(simulator, machine, nodes, sizes, limit):
    print(f"# simulated: {machine}, {nodes} nodes x {PER_NODE}, dispatch + combine, top-8 of 256, "
          f"at most {limit or nodes} nodes a token, microseconds")
    table = {}
    collect(simulator.moe(machine, nodes, sizes, ["flat", "node", "node_dedup"], limit=limit), table)
    for vendor in VENDORS:
        collect(simulator.moe(machine, nodes, sizes, ["vendor"], limit=limit,
                              settings={"smpi/coll-selector": vendor}), table, vendor + ":")
    for size, row in sorted(table.items()):
        vendor, vendor_us = best(row, lambda name: name.split(":")[0] in VENDORS)
        if "node_dedup" not in row:
            print(f"{size:>9} not finished in time")
            continue
        print(f"{size:>9} flat {row.get('flat', 0):.1f} node {row.get('node', 0):.1f} node_dedup "
              f"{row.get('node_dedup', 0):.1f} best vendor {vendor} {vendor_us or 0:.1f} "
              f"vendor/node_dedup {(vendor_us or 0) / row['node_dedup']:.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smpirun")
    parser.add_argument("program")
    parser.add_argument("platform")
    parser.add_argument("--machines", default=",".join(MACHINES))
    parser.add_argument("--nodes", default="4,16")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--moe", action="store_true", help="dispatch and combine of tokens")
    parser.add_argument("--limit", type=int, default=4, help="nodes a token may reach")
    parser.add_argument("--seconds", type=float, default=120, help="limit of one simulation")
    options = parser.parse_args()
    simulator = Simulator(options.smpirun, options.program, options.platform, options.seconds)
    sizes = [int(size) for size in options.sizes.split(",")]
    for machine in options.machines.split(","):
        for nodes in map(int, options.nodes.split(",")):
            if options.moe:
                print_moe(simulator, machine, nodes, sizes, min(options.limit, nodes))
            else:
                print_plain(machine, nodes, plain(simulator, machine, nodes, sizes))


if __name__ == "__main__":
    main()

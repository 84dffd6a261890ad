#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What share of the expert exchange a training step hides behind compute when its tokens go in chunks.

Nodes of the lab, one rank on each, train a few steps in turn: with one chunk (twice: their difference is
the noise), with several, and on rows that never left the rank (`piper-worker --local-rows`), which is the
compute alone. communication = serial - compute alone; share hidden = (serial - overlapped) /
communication, of the medians of the steps of a round. Medians over the rounds, and their quartiles.
With --dummies every run is one without traffic: there is no communication, and so no share.

usage: tests/lab/overlap.py PIPER_WORKER [--chunks N] [--rounds N] [--rate MBIT] ...
Exit status 77, with the reason, where namespaces are not allowed; 1 if --bar is not reached."""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LAB = str(Path(__file__).with_name("lab"))
CLUSTER = Path(__file__).parents[2] / "packaging/examples/clusters/local-cpu.json"
PREFIX = f"overlap{os.getpid()}"
STEP = re.compile(r"^step (\d+)/\d+ .* (\d+) tokens/s$", re.M)
WARM_UP = 2  # steps


def plan(options, chunks):
    return {
        "format_version": 1, "framework": "plain", "cluster": str(CLUSTER),
        "rank_order": "tp-cp-ep-dp-pp", "schedule": "1f1b", "precision": "fp32", "layout": {"dp": options.nodes, "ep": options.nodes},
        "micro_batch_size": options.micro_batch_size, "seq_len": options.seq_len,
        "global_batch_size": options.micro_batch_size * options.nodes * options.micro_batches,
        "all_to_all": {"algorithm": options.algorithm, "chunks": chunks},
        "model": {
            "format_version": 1, "name": "overlap", "model_type": "piper",
            "hidden_size": options.hidden, "num_layers": options.layers, "vocab_size": 256,
            "attention": {"kind": "gqa", "num_heads": 8, "num_kv_heads": 4,
                          "head_dim": options.hidden // 8},
            "moe": {"num_experts": 4 * options.nodes, "router_topk": options.topk,
                    "moe_ffn_hidden_size": options.ffn, "mlp": "swiglu", "scoring": "softmax",
                    "norm_topk_prob": True, "aux_loss_coefficient": 0.01},
            "tie_word_embeddings": False, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0}}


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder, self.runs = options, Path(folder), 0

    def step_ms(self, chunks, local):
        """Median step of a run of its own."""
        self.runs += 1
        plan_file = self.folder / f"plan-{chunks}.json"
        plan_file.write_text(json.dumps(plan(self.options, chunks)))
        job = self.folder / f"job-{self.runs}"
        command = [LAB, "--prefix", PREFIX, "mpirun", "--ranks", "1", "--", self.options.worker,
                   "--plan", str(plan_file), "--job", str(job), "--steps",
                   str(self.options.steps + WARM_UP)]
        done = subprocess.run(command + ["--local-rows"] * local, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr}")
        tokens = plan(self.options, chunks)["global_batch_size"] * self.options.seq_len
        rates = [int(rate) for step, rate in STEP.findall(done.stdout) if int(step) > WARM_UP]
        return statistics.median(1000 * tokens / rate for rate in rates)


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:9.1f}   {low:.1f} to {high:.1f}"


def report(options, rounds):
    """rounds: {what: [ms]}. The share hidden; None without communication."""
    for what, times in rounds.items():
        print(f"{what:34} {quartiles(times)} ms")
    serial = [(a + b) / 2 for a, b in zip(rounds["one chunk"], rounds["one chunk again"])]
    noise = statistics.median(
        abs(a - b) for a, b in zip(rounds["one chunk"], rounds["one chunk again"]))
    communication = [s - c for s, c in zip(serial, rounds["compute alone"])]
    exposed = statistics.median(communication)
    print(f"{'communication (serial - compute)':34} {quartiles(communication)} ms"
          f"   noise {noise:.1f} ms")
    if exposed <= 3 * noise:
        print(f"no communication: {exposed:.1f} ms are within three times the noise of {noise:.1f} ms")
        return None
    overlapped = rounds[f"{options.chunks} chunks"]
    shares = [(s - o) / c for s, o, c in zip(serial, overlapped, communication)]
    share = (statistics.median(serial) - statistics.median(overlapped)) / exposed
    low, _, high = statistics.quantiles(shares, n=4, method="inclusive")
    print(f"share hidden {share:.2f} ({low:.2f} to {high:.2f} by round), n {len(shares)}, "
          f"noise {noise / exposed:.2f}")
    return share


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("worker")
    for name, value in (("chunks", 8), ("rounds", 9), ("steps", 3), ("nodes", 4), ("hidden", 256),
                        ("ffn", 3072), ("layers", 1), ("topk", 2), ("seq-len", 256),
                        ("micro-batch-size", 4), ("micro-batches", 2)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--rate", type=float, default=200, help="Mbit/s of a node's link")
    parser.add_argument("--algorithm", default="flat")
    parser.add_argument("--dummies", action="store_true", help="no run with traffic")
    parser.add_argument("--bar", type=float, help="least share hidden")
    options = parser.parse_args()
    options.worker = os.path.abspath(options.worker)
    check = subprocess.run([LAB, "check"], capture_output=True, text=True)
    if check.returncode == 77:
        print(check.stderr.strip())
        return 77
    cases = {"one chunk": (1, False), "compute alone": (1, True),
             f"{options.chunks} chunks": (options.chunks, False), "one chunk again": (1, False)}
    rounds = {what: [] for what in cases}
    try:
        subprocess.run([LAB, "--prefix", PREFIX, "up", "--nodes", str(options.nodes), "--rate",
                        str(options.rate)], check=True)
        with tempfile.TemporaryDirectory(prefix="piper-overlap-") as folder:
            bench = Bench(options, folder)
            for turn in range(options.rounds):
                order = list(cases.items())[:: 1 if turn % 2 == 0 else -1]
                for what, (chunks, local) in order:
                    rounds[what].append(bench.step_ms(chunks, local or options.dummies))
    finally:
        subprocess.run([LAB, "--prefix", PREFIX, "down"], check=False)
    print(f"{options.nodes} nodes x 1, {options.rate:g} Mbit/s, {options.algorithm}, "
          f"{options.steps} steps a run")
    share = report(options, rounds)
    return 0 if options.bar is None or (share is not None and share >= options.bar) else 1


if __name__ == "__main__":
    sys.exit(main())

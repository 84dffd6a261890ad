#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the lab, and of the all-to-all in it. usage: lab_test.py PIPER_ALLTOALL [unittest options]
Exit status 77, with the reason, where namespaces are not allowed."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

LAB = str(Path(__file__).with_name("lab"))
PREFIX = f"labtest{os.getpid()}"
PROGRAM = ""


def lab(*arguments, **options):
    return subprocess.run([LAB, "--prefix", PREFIX, *arguments], capture_output=True, text=True,
                          timeout=300, **options)


def spaces():
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(PREFIX + "-")]


class LabTest(unittest.TestCase):
    def tearDown(self):
        lab("down")

    def test_nodes_have_names_and_a_wire_of_their_own(self):
        self.assertEqual(lab("up", "--nodes", "4", "--racks", "2", "--uplink", "50").returncode, 0)
        for node in range(4):
            self.assertEqual(lab("exec", str(node), "--", "hostname").stdout.strip(), f"node{node}")
        traffic = json.loads(lab("traffic").stdout)
        wanted = {f"node{k}:eth0" for k in range(4)} | {f"switch:port{k}" for k in range(4)}
        wanted |= {"switch:up0", "switch:up1", "switch:br0", "switch:rack0"}
        self.assertLessEqual(wanted, set(traffic["interfaces"]))
        again = lab("up", "--nodes", "2")
        self.assertEqual(again.returncode, 3)
        self.assertIn("is there already", again.stderr)
        self.assertEqual(len(spaces()), 5, "the second up left the first lab alone")
        self.assertEqual(lab("down").returncode, 0)
        self.assertEqual(spaces(), [])
        self.assertFalse(Path(f"/run/{PREFIX}-lab").exists())

    def test_a_killed_lab_is_removed_by_its_prefix(self):
        child = subprocess.Popen([LAB, "--prefix", PREFIX, "run", "--nodes", "2", "--", "sleep",
                                  "1000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while len(spaces()) < 3 and time.monotonic() < end:
            time.sleep(0.1)
        child.send_signal(signal.SIGKILL)
        child.wait()
        self.assertNotEqual(spaces(), [])
        self.assertEqual(lab("down").returncode, 0)
        self.assertEqual(spaces(), [])

    def test_a_run_that_moves_nothing_over_the_wire_is_found_out(self):
        result = lab("run", "--nodes", "2", "--min-bytes", "1000000", "--", "true")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("another way", result.stderr)
        self.assertEqual(spaces(), [])

    def test_bad_usage(self):
        self.assertEqual(lab("run", "--nodes", "0", "--", "true").returncode, 2)
        self.assertEqual(lab("run").returncode, 2)
        self.assertEqual(lab("exec", "0", "--", "true").returncode, 3)

    def test_bytes_on_every_wire_and_closed_forms(self):
        nodes, local = 4, 2
        sizes = {16384: 1.08, 65536: 1.06}
        result = lab("run", "--nodes", str(nodes), "--ranks", str(local), "--min-bytes", "1000000",
                     "--", PROGRAM, "pairs", "--pairs", "3", "--json", "--sizes",
                     ",".join(str(size) for size in sizes))
        self.assertEqual(result.returncode, 0, result.stderr)
        across = nodes * (nodes - 1) * local * local
        inter_node_messages = {"vendor": across, "flat": across, "node": nodes * local * (nodes - 1),
                               "rail": nodes * local * (nodes - 1), "node_pair": nodes * (nodes - 1)}
        for size in json.loads(result.stdout)["sizes"]:
            pair = size["bytes_per_pair"]
            for row in size["results"]:
                name = row["algorithm"].split()[0]
                with self.subTest(algorithm=name, bytes=pair):
                    self.assertEqual(row["payload_bytes"], across * pair)
                    self.assertEqual(row["busiest_node_messages"],
                                     inter_node_messages[name] // nodes)
                    self.assertLessEqual(row["wire_over_payload"], sizes[pair])
                    self.assertGreater(row["wire_bytes"], row["payload_bytes"])

    def test_a_token_crosses_once(self):
        result = lab("run", "--nodes", "4", "--ranks", "2", "--", PROGRAM, "moe", "--pairs", "2",
                     "--json", "--tokens", "64", "--algorithms", "flat,rank_dedup,node_dedup")
        self.assertEqual(result.returncode, 0, result.stderr)
        payload = {row["algorithm"]: row["payload_bytes"]
                   for row in json.loads(result.stdout)["results"]}
        # Uniform top-8 of 64 over 4 nodes: 6 rows, 2.74 nodes (of 3 others) for each token.
        self.assertLess(payload["node_dedup"], payload["rank_dedup"])
        self.assertAlmostEqual(payload["flat"] / payload["node_dedup"], 6 / 2.744, delta=0.1)


def main():
    global PROGRAM
    check = subprocess.run([LAB, "check"], capture_output=True, text=True)
    if check.returncode == 77:
        print(f"lab_test.py:1: Skipped\n{check.stderr.strip()}\n[  SKIPPED ] lab")
        return 77
    PROGRAM = os.path.abspath(sys.argv[1])
    program = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

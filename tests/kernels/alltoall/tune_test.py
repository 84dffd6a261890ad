#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a table and asks for the choice by it. usage: tune_test.py PIPER_ALLTOALL MPIRUN CLUSTER"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MPIRUN, CLUSTER = "", "", ""
ENVIRONMENT = dict(os.environ, PIPER_NODE="0,0,1,1", OMPI_ALLOW_RUN_AS_ROOT="1",
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")


def run(*arguments):
    return subprocess.run([MPIRUN, "--oversubscribe", "--bind-to", "none", "-x", "PIPER_NODE", "-np",
                           "4", PROGRAM, *arguments], capture_output=True, text=True, timeout=100,
                          env=ENVIRONMENT)


class TuneTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.file = os.path.join(directory.name, "cluster.json")
        shutil.copy(CLUSTER, self.file)

    def points(self):
        with open(self.file, encoding="utf-8") as file:
            return json.load(file)["curves"]["exchange"]

    def explain(self):
        result = run("explain", "--json", "--cluster", self.file, "--tokens", "16", "--experts", "16",
                     "--hidden", "64", "--topk", "4")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["auto"]

    def test_the_measured_table_decides(self):
        self.assertIn("by the cost formulas", self.explain()["why"])
        tune = ("tune", "--cluster", self.file, "--pairs", "1", "--tokens", "16", "--experts", "16",
                "--hiddens", "16,64", "--topks", "4", "--zipfs", "0")
        for _ in range(2):  # the second table takes the place of the first
            result = run(*tune)
            self.assertEqual(result.returncode, 0, result.stderr)
            points = self.points()
            self.assertEqual(len(points), 2 * 6)
            self.assertEqual({p["algorithm"] for p in points},
                             {"vendor", "flat", "node", "rail", "node_pair", "node_dedup"})
        self.assertTrue(all(p["ranks"] == 4 and p["nodes"] == 2 and p["tokens"] == 16
                            for p in points))
        here = [p for p in points if p["row_bytes"] == 256]
        fastest = min(here, key=lambda p: p["time_seconds"])["algorithm"]
        choice = self.explain()
        self.assertEqual(choice["algorithm"], fastest)
        self.assertIn("the fastest measured near this", choice["why"])

    def test_a_file_that_is_missing_is_said_before_anything_is_timed(self):
        result = run("tune", "--cluster", self.file + ".none", "--pairs", "1")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("cluster.json.none", result.stderr)


if __name__ == "__main__":
    PROGRAM, MPIRUN, CLUSTER = sys.argv[1:4]
    unittest.main(argv=sys.argv[:1])

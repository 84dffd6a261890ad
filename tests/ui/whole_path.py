#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The window on one node of the lab, a real sshd and a real Slurm of three compute nodes behind
another. usage: whole_path.py UI_LONG_TEST [unittest options]
Exit status 77, with the reason, where namespaces are not allowed."""
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "lab"))
import session_case  # noqa: E402
from session_case import Bench, PREFIX, SessionCase, on  # noqa: E402


class WholePath(SessionCase):
    def test_from_the_address_of_a_cluster_to_a_report(self):
        environment = dict(os.environ, PIPER_LAB_SSH_CONFIG=f"/run/{PREFIX}-lab/ssh_config")
        window = ["xvfb-run", "-a", "-s", "-screen 0 1920x1200x24", Bench.piperctl,
                  "--gtest_filter=WholePath.*"]
        done = subprocess.run([*Bench.enter[Bench.nodes], *window], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=800)
        print(done.stdout, file=sys.stderr)
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("SKIPPED", done.stdout)
        # Slurm has seen it: one job of ours on all nodes, to its end.
        jobs = on(0, "scontrol", "--oneliner", "show", "jobs").stdout.splitlines()
        self.assertEqual(len(jobs), 1, jobs)
        self.assertIn("JobState=COMPLETED", jobs[0])
        self.assertIn("NumNodes=3", jobs[0])
        self.assertIn("NodeList=node[1-3]", jobs[0])


if __name__ == "__main__":
    sys.exit(session_case.main("__main__", 4, "--racks", "2", slurm=("--slurm", "3")))

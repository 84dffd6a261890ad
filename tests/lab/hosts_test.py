#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions whose launcher is mpirun over several hosts, which it reaches by ssh: piperctl on one node of
the lab, three hosts behind another. usage: hosts_test.py PIPERCTL [unittest options]
Exit status 77, with the reason, where namespaces are not allowed."""
import sqlite3
import sys
import time

import session_case
from session_case import Bench, SessionCase


class Hosts(SessionCase):
    def session(self, *hosts, ssh_options=()):
        """ssh_options: of the ssh that mpirun reaches hosts with, none with a blank in it."""
        arguments = " ".join(f"-o {option}" for option in ssh_options)
        line = ("--line", f"export OMPI_MCA_plm_rsh_args='{arguments}'") if arguments else ()
        return self.add("hosts", "--launcher", "mpirun", "--hosts", ",".join(hosts), "--interface",
                        "eth0", *line)

    def test_a_run_over_two_hosts_is_collected(self):
        session = self.session("node1:2", "node2:2")
        workspace = str(Bench.folder / "hosts.piper")
        done = self.ctl("run", self.plan, "--session", session, "--steps", "4", "-o", workspace)
        self.assertIn("step 4/4", done.stderr)
        with sqlite3.connect(workspace) as file:
            hosts = [host for (host,) in file.execute(
                "SELECT host FROM source WHERE run_id = (SELECT id FROM run WHERE name = 'measured')"
                " ORDER BY rank")]
        self.assertEqual(hosts, ["node1", "node1", "node2", "node2"])

    def test_cancel_ends_ranks_on_every_host(self):
        session = self.session("node1:2", "node2:2")
        job = self.start(session)
        self.running_on((1, 2), job)
        began = time.monotonic()
        self.ctl("cancel", job, "--session", session)
        print(f"cancel of ranks on two hosts: {time.monotonic() - began:.1f} s", file=sys.stderr)
        self.assert_nothing_left(job)
        self.assertEqual(self.state(session, job), "cancelled")
        kept = self.json("fetch", job, "--session", session, "-o",
                         str(Bench.folder / "hosts-cancelled.piper"), status=130)
        self.assertEqual(kept["outcome"], "cancelled")

    def test_a_host_that_ssh_does_not_reach_is_named_with_its_reason(self):
        slow = Bench.folder / "slow"
        slow.write_text("#!/bin/sh\nsleep 6\n")  # longer than a host that was lost is waited for
        slow.chmod(0o700)
        for other, options, reason in (
                ("nowhere", (), "nowhere cannot be reached: Could not resolve hostname"),
                ("node2", ("PubkeyAuthentication=no",), "node2 cannot be reached: .*Permission denied"),
                ("node2", ("UserKnownHostsFile=/dev/null", "StrictHostKeyChecking=yes"),
                 "node2 cannot be reached: Host key verification failed"),
                ("node2", (f"ProxyCommand={slow}",), "node2 cannot be reached: .*[Cc]onnection")):
            with self.subTest(reason=reason):
                session = self.session("node1:2" if not options else "node2:2", f"{other}:2",
                                       ssh_options=options)
                job = self.start(session)
                ended = self.ctl("attach", job, "--session", session, "-o",
                                 str(Bench.folder / "unreached.piper"), status=3)
                self.assertRegex(ended.stderr, reason, self.log(job))
                self.assertNotIn("was lost", ended.stderr)
                self.assertRegex(self.job(session, job)["message"], reason)

    # By name the last one: its host does not come back.
    def test_x_a_lost_host_is_named(self):
        session = self.session("node1:2", "node2:2")
        job = self.start(session)
        self.running_on((1, 2), job)
        began = time.monotonic()
        session_case.lab("lose", "2")
        ended = self.ctl("attach", job, "--session", session, "-o",
                         str(Bench.folder / "hosts-lost.piper"), status=3)
        print(f"lost host named after {time.monotonic() - began:.1f} s", file=sys.stderr)
        self.assertIn("node node2 was lost", ended.stderr)
        listed = self.job(session, job)
        self.assertEqual(listed["state"], "failed")
        self.assertIn("node node2 was lost", listed["message"])
        self.assertEqual(self.processes(1, job), [])


if __name__ == "__main__":
    sys.exit(session_case.main("__main__", 4))

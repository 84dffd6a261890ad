#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that Slurm's controller has forgotten, where slurmdbd keeps accounts: sessions of piperctl on the
lab's Slurm with its own slurmdbd. usage: slurm_accounts_test.py PIPERCTL [unittest options]
Exit status 77, with the reason, where namespaces are not allowed."""
import sys
from pathlib import Path

import session_case
from session_case import wait_until
from slurm_test import SlurmCase, number_of, on, slurm


def forgotten(number):
    """Waits until the controller knows a job no more: it looks for old ones every minute."""
    return wait_until(lambda: "Invalid job id" in on(0, "scontrol", "show", "job", number).stderr, 200)


class Accounts(SlurmCase):
    def test_the_end_of_a_forgotten_job_comes_from_its_accounts(self):
        session = self.add("killed", "--launcher", "sbatch")
        # Its script is killed, so that nothing in its directory says how it ended.
        killed = self.start(session)
        self.running_on((1, 2), killed)
        slurm("scancel", "--batch", "--signal=KILL", number_of(killed))
        limited = self.add("limit", "--launcher", "sbatch", "--time", "1")
        late = self.start(limited)
        self.assertTrue(forgotten(number_of(killed)))
        self.assertEqual(self.job(session, killed)["state"], "failed")
        self.assertIn("Slurm calls the job FAILED, but it left no exit status",
                      self.job(session, killed)["message"])

        self.assertTrue(wait_until(lambda: Path(late, "exit_status").exists(), 120))
        for name in ("exit_status", "log.txt"):  # as if they had gone with a file system
            Path(late, name).unlink()
        self.assertTrue(forgotten(number_of(late)))
        ended = self.ctl("attach", late, "--session", limited, status=3)
        self.assertIn("Slurm ended the job at its time limit of 00:01:00", ended.stderr)

    def test_an_account_that_there_is_not_is_refused_with_those_there_are(self):
        for command in (("add", "account", "physics"), ("add", "user", "root", "account=physics")):
            on(0, "sacctmgr", "-i", *command)
        session = self.add("wrong", "--launcher", "sbatch", "--partition", "nowhere", "--account",
                           "nobody")
        result = self.ctl("run", self.plan, "--session", session, "--detach", status=3)
        self.assertIn("refused the job (partition 'nowhere', account 'nobody')", result.stderr)
        self.assertRegex(result.stderr, "accounts:.* physics")


if __name__ == "__main__":
    sys.exit(session_case.main("__main__", 4, "--racks", "2", slurm=("--slurm", "3", "--accounts")))

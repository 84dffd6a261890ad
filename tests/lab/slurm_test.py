#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sessions on a host with Slurm, as a user has them: piperctl on one node of the lab, a real Slurm of
three compute nodes behind another. usage: slurm_test.py PIPERCTL [Queue Corners Steps Endings]
Exit status 77, with the reason, where namespaces are not allowed."""
import json
import os
import re
import sqlite3
import stat
import sys
import time
from pathlib import Path

import session_case
from session_case import Bench, PREFIX, SessionCase, on, wait_until

STUBBORN = """#!/bin/sh
[ "$1" != --help ] || exit 0
trap '' TERM
while :; do sleep 1; done
"""


def slurm(*command):
    return on(0, *command).stdout.strip()


def fill(nodes=3):
    """A job of somebody else's on all nodes; its number."""
    number = slurm("sbatch", "--parsable", "--exclusive", f"--nodes={nodes}", "--output=/dev/null",
                   "--wrap", "sleep 600")
    wait_until(lambda: slurm("squeue", "-h", "-j", number, "-o", "%T") == "RUNNING")
    return number


def number_of(directory):
    return re.search(r'"slurm_job": "(\d+)"', Path(directory, "launcher.json").read_text()).group(1)


class SlurmCase(SessionCase):
    def tearDown(self):
        # Nothing of one test is in the way of the next.
        slurm("scancel", "-u", "root")
        self.assertTrue(wait_until(lambda: not slurm("squeue", "-h")), slurm("squeue"))


class Queue(SlurmCase):
    """sbatch: what every session with it goes through."""

    def test_partitions_limits_nodes_and_switches_are_discovered(self):
        self.add("cluster", "--launcher", "sbatch")
        found = self.json("session", "discover", "cluster")
        partitions = {p["name"]: p for p in found["partitions"]}
        self.assertEqual(set(partitions), {"main", "spare", "small", "closed"})
        main = partitions["main"]
        self.assertTrue(main["default"])
        self.assertEqual((main["nodes"], main["processors"], main["memory_bytes"]),
                         (3, 2, 2000 << 20))
        self.assertEqual((main["node_list"], main["time_limit"]), ("node[1-3]", "1:00:00"))
        self.assertEqual(main["nodes_in_use"], "0/3/0/3")
        self.assertEqual((partitions["small"]["node_list"], partitions["small"]["time_limit"]),
                         ("node1", "1:00"))
        switches = "\n".join(found["switches"])
        self.assertRegex(switches, "SwitchName=rack0 .*Nodes=node1,node2")
        self.assertRegex(switches, "SwitchName=rack1 .*Nodes=node3")
        self.assertRegex(switches, "SwitchName=top .*Switches=rack0,rack1")
        self.assertEqual((found["cluster"]["nodes"], found["cluster"]["devices_per_node"]), (3, 2))
        self.assertIn("slurm-wlm", found["programs"]["srun"])

    def test_gpus_are_asked_for_where_slurm_hands_them_out(self):
        session = self.add("gpus", "--launcher", "sbatch")
        found = self.json("session", "discover", session)
        self.assertEqual({p["gres"] for p in found["partitions"]}, {"gpu:lab:2"})
        plan = json.loads(Path(self.plan).read_text())
        plan["cluster"]["device"] = "H100 SXM"
        gpus = str(Bench.folder / "gpus.json")
        Path(gpus).write_text(json.dumps(plan))
        preview = self.json("run", gpus, "--session", session, "--preview")
        self.assertIn("#SBATCH --gpus-per-node=2\n", preview["script"])
        self.assertRegex(preview["queue"], "Job .* to start at")
        own = self.add("own", "--launcher", "sbatch", "--line", "#SBATCH --gres=gpu:lab:3")
        preview = self.json("run", gpus, "--session", own, "--preview")
        self.assertNotIn("--gpus-per-node", preview["script"])
        self.assertRegex(" ".join(preview["warnings"]), "Slurm would not take it: .*node config")

    def test_a_job_waits_runs_and_is_compared(self):
        session = self.add("cluster", "--launcher", "sbatch", "--time", "10:00")
        preview = self.json("run", self.plan, "--session", session, "--preview")
        self.assertRegex(preview["queue"], "Job .* to start at .* in partition main")
        self.assertEqual(preview["warnings"], [])
        self.assertIn("#SBATCH --time=10:00", preview["script"])
        blocker = fill()
        workspace = str(Bench.folder / "queued.piper")
        child, output = self.begin("run", self.plan, "--session", session, "--steps", "6", "--name",
                                   "measured", "-o", workspace)
        self.assertTrue(wait_until(lambda: re.search(
            r"queued: PENDING \((Resources|Priority)\), place 1\b", output())), output())
        behind = self.start(session, steps=1)
        self.assertTrue(wait_until(
            lambda: "place 2" in self.job(session, behind)["message"]), self.job(session, behind))
        self.assertEqual(self.state(session, behind), "queued")
        slurm("scancel", blocker)
        self.assertEqual(child.wait(120), 0, output())
        self.assertRegex(output(), r"running: step \d/6  loss \d\.\d+  \d+ tokens/s")
        self.assertIn(f"finished: run 'measured' in {workspace}, its prediction as 'modelled'",
                      output())
        self.assertTrue(wait_until(lambda: self.state(session, behind) == "finished"))
        # Ranks ran where the preview said: two on each of two nodes.
        with sqlite3.connect(workspace) as file:
            hosts = [host for (host,) in file.execute(
                "SELECT host FROM source WHERE run_id = (SELECT id FROM run WHERE name = 'measured')"
                " ORDER BY rank")]
        self.assertEqual(hosts[0::2], hosts[1::2])
        self.assertEqual(len(set(hosts)), 2, hosts)
        self.assertEqual([line.split(",")[0] for line in preview["rank_map"]],
                         [f"rank {r}: node {r // 2}" for r in range(4)])
        compared = self.json("compare", workspace, "measured", "modelled")
        self.assertTrue(compared["phases"])

    def test_the_place_in_each_of_several_partitions_is_shown(self):
        session = self.add("several", "--launcher", "sbatch", "--partition", "main,spare")
        blocker = fill()
        first, second = self.start(session, steps=1), self.start(session, steps=1)
        self.assertTrue(wait_until(lambda: re.search(
            "place 2 of main, 2 of spare|place 2 of spare, 2 of main",
            self.job(session, second)["message"])), self.job(session, second))
        slurm("scancel", blocker)
        for job in (first, second):
            self.assertTrue(wait_until(lambda: self.state(session, job) == "finished"))

    def test_a_job_whose_submission_got_no_answer_is_taken_up(self):
        session = self.add("cluster", "--launcher", "sbatch")
        job = self.start(session)
        self.running_on((1, 2), job)
        number = number_of(job)
        record = Path(job, "launcher.json")
        for command in (("jobs", "--session", session), ("cancel", job, "--session", session)):
            record.write_text(record.read_text().replace(number, ""))
            self.ctl(*command)
            self.assertEqual(number_of(job), number)
        self.assert_nothing_left(job)
        self.assertEqual(self.state(session, job), "cancelled")

    def test_cancel_ends_every_rank_and_keeps_what_was_measured(self):
        session = self.add("cluster", "--launcher", "sbatch")
        job = self.start(session)
        self.running_on((1, 2), job)
        began = time.monotonic()
        self.ctl("cancel", job, "--session", session)
        print(f"cancel of ranks on two nodes: {time.monotonic() - began:.1f} s", file=sys.stderr)
        self.assert_nothing_left(job)
        self.assertEqual(self.state(session, job), "cancelled")
        self.assertIn("JobState=CANCELLED", slurm("scontrol", "show", "job", number_of(job)))
        kept = self.json("fetch", job, "--session", session, "-o",
                         str(Bench.folder / "cancelled.piper"), status=130)
        self.assertEqual(kept["outcome"], "cancelled")


class Corners(SlurmCase):
    """sbatch: what some go through."""

    def test_attach_and_fetch_of_a_job_that_was_left(self):
        session = self.add("cluster", "--launcher", "sbatch")
        job = self.start(session, steps=4)
        workspace = str(Bench.folder / "attached.piper")
        self.ctl("attach", job, "--session", session, "-o", workspace)
        self.assertEqual(self.state(session, job), "finished")
        again = self.json("fetch", job, "--session", session, "-o", workspace, "--name", "again")
        self.assertEqual((again["outcome"], again["measured"]), ("finished", "again"))

    def test_cancel_ends_what_waits_and_what_ignores_it(self):
        stub = Bench.folder / "stubborn"
        stub.write_text(STUBBORN)
        stub.chmod(stat.S_IRWXU)
        session = self.add("stubborn", "--launcher", "sbatch", "--worker", str(stub))
        job = self.start(session)
        self.assertTrue(wait_until(lambda: self.processes(1, job) and self.processes(2, job)))
        blocker = fill(nodes=1)
        waiting = self.start(session)
        self.ctl("cancel", waiting, "--session", session)
        self.assertEqual(self.state(session, waiting), "cancelled")
        self.assertEqual(self.state(session, job), "starting")
        began = time.monotonic()
        self.ctl("cancel", job, "--session", session)
        print(f"cancel of ranks that ignore SIGTERM: {time.monotonic() - began:.1f} s",
              file=sys.stderr)
        self.assert_nothing_left(job)
        self.assertEqual(self.state(session, job), "cancelled")
        self.assertEqual(slurm("squeue", "-h", "-j", blocker, "-o", "%T"), "RUNNING")

    def test_wrong_partition_and_account_are_named(self):
        session = self.add("wrong", "--launcher", "sbatch", "--partition", "nowhere")
        before = self.json("jobs", "--session", session)["jobs"]
        result = self.ctl("run", self.plan, "--session", session, "--detach", status=3)
        self.assertIn("refused the job (partition 'nowhere')", result.stderr)
        self.assertIn("partitions: closed main small spare", result.stderr)
        self.assertEqual(self.json("jobs", "--session", session)["jobs"], before)
        # Where Slurm does not look at once, the job waits for ever: its reason says so.
        session = self.add("wrong", "--launcher", "sbatch", "--partition", "closed", "--account",
                           "nobody")
        job = self.start(session)
        self.assertTrue(wait_until(lambda: "will not start" in self.job(session, job)["message"]))
        self.assertRegex(self.job(session, job)["message"], "account.*closed allows physics")
        self.ctl("cancel", job, "--session", session)

    def test_refused_where_limits_are_enforced(self):
        configuration = Path(f"/run/{PREFIX}-lab/slurm/slurm.conf")
        before = configuration.read_text()
        configuration.write_text(before + "EnforcePartLimits=ALL\n")
        slurm("scontrol", "reconfigure")
        try:
            session = self.add("strict", "--launcher", "sbatch", "--time", "3:00:00")
            preview = self.json("run", self.plan, "--session", session, "--preview")
            self.assertRegex(" ".join(preview["warnings"]), "Slurm would not take it: .*imit")
            for more, words in ((("--partition", "closed", "--account", "nobody"),
                                 ("partition 'closed', account 'nobody'", "nvalid account",
                                  "AllowAccounts=physics")),
                                (("--time", "3:00:00"), ("time limit '3:00:00'",))):
                session = self.add("strict", "--launcher", "sbatch", *more)
                result = self.ctl("run", self.plan, "--session", session, "--detach", status=3)
                for word in words:
                    self.assertIn(word, result.stderr)
        finally:
            configuration.write_text(before)
            slurm("scontrol", "reconfigure")


class Steps(SlurmCase):
    """srun inside an allocation."""

    def allocate(self, *more):
        said = on(0, "salloc", "--no-shell", "--nodes=3", "--ntasks=6", *more).stderr
        return re.search(r"allocation (\d+)", said).group(1)

    def test_a_step_runs_and_is_collected(self):
        session = self.add("steps", "--launcher", "srun", "--allocation", self.allocate())
        workspace = str(Bench.folder / "step.piper")
        done = self.ctl("run", self.plan, "--session", session, "--steps", "4", "-o", workspace)
        self.assertIn("step 4/4", done.stderr)
        self.assertIn("finished: run 'measured'", done.stdout)

    def test_cancel_ends_the_step_and_leaves_the_allocation(self):
        allocation = self.allocate()
        session = self.add("steps", "--launcher", "srun", "--allocation", allocation)
        job = self.start(session)
        self.running_on((1, 2), job)
        began = time.monotonic()
        self.ctl("cancel", job, "--session", session)
        print(f"cancel of a step on two nodes: {time.monotonic() - began:.1f} s", file=sys.stderr)
        self.assert_nothing_left(job)
        self.assertEqual(self.state(session, job), "cancelled")
        self.assertEqual(slurm("squeue", "-h", "-j", allocation, "-o", "%T"), "RUNNING")
        kept = self.json("fetch", job, "--session", session, "-o",
                         str(Bench.folder / "step-cancelled.piper"), status=130)
        self.assertEqual(kept["outcome"], "cancelled")

    def test_cancel_ends_a_step_that_an_older_version_named(self):
        allocation = self.allocate()
        session = self.add("steps", "--launcher", "srun", "--allocation", allocation)
        job = self.start(session, steps=1)
        self.ctl("attach", job, "--session", session)
        for name in ("exit_status", "status.json", "launcher.pid"):
            Path(job, name).unlink()
        script = Path(job, "launch.sh")
        script.write_text(re.sub("--job-name=[^ ]*", f"--job-name=piper-{Path(job).name}",
                                 script.read_text()).replace("--steps 1 ", "--steps 100000 "))
        # Its output would keep this waiting for the job's end.
        on(0, "sh", "-c", f"exec setsid --fork sh '{script}' > /dev/null 2>&1 < /dev/null")
        self.running_on((1, 2), job)
        self.ctl("cancel", job, "--session", session)
        self.assert_nothing_left(job)
        self.assertEqual(self.state(session, job), "cancelled")

    def test_an_allocation_that_is_not_there_is_named(self):
        session = self.add("steps", "--launcher", "srun", "--allocation", "4711")
        result = self.ctl("run", self.plan, "--session", session, "--detach", status=3)
        self.assertIn("allocation 4711 on steps", result.stderr)
        self.assertIn("Invalid job id", result.stderr)
        allocation = self.allocate()
        slurm("scancel", allocation)
        wait_until(lambda: not slurm("squeue", "-h"))
        session = self.add("steps", "--launcher", "srun", "--allocation", allocation)
        result = self.ctl("run", self.plan, "--session", session, "--detach", status=3)
        self.assertIn(f"allocation {allocation} on steps: it has ended", result.stderr)


class Endings(SlurmCase):
    """What ends a job from outside; minutes, since Slurm takes them."""

    def assert_ends_with(self, session, job, words):
        """The job fails, and who follows it and who lists it is told the words."""
        result = self.ctl("attach", job, "--session", session, "-o",
                          str(Bench.folder / f"{Path(job).name}.piper"), status=3)
        listed = self.job(session, job)
        self.assertEqual(listed["state"], "failed")
        for told in (result.stderr, listed["message"]):
            self.assertIn(words, told, f"log of the job:\n{self.log(job)}")

    def test_a_time_limit_is_named(self):
        session = self.add("limit", "--launcher", "sbatch", "--partition", "main", "--time", "1")
        job = self.start(session)
        self.running_on((1, 2), job)
        self.assert_ends_with(session, job, "Slurm ended the job at its time limit")
        self.assert_nothing_left(job)

    def test_a_controller_that_is_away_ends_no_job(self):
        session = self.add("away", "--launcher", "sbatch")
        job = self.start(session)
        self.running_on((1, 2), job)
        controller = Path(f"/run/{PREFIX}-lab/slurmctld.pid").read_text().strip()
        on(0, "kill", controller)
        on(0, "sh", "-c", f"while kill -0 {controller} 2>/dev/null; do sleep 0.1; done")
        try:
            self.assertEqual(self.state(session, job), "running")
            self.assertRegex(self.ctl("cancel", job, "--session", session, status=3).stderr,
                             "Slurm does not answer")
        finally:
            on(0, "env", f"PATH={os.environ['PATH']}:/usr/sbin", "slurmctld")
        self.assertTrue(wait_until(lambda: slurm("squeue", "-h", "-j", number_of(job))))
        self.ctl("cancel", job, "--session", session)
        self.assert_nothing_left(job)

    # By name the last ones: their nodes do not come back.
    def test_x_a_lost_node_of_a_step_is_named(self):
        said = on(0, "salloc", "--no-shell", "--nodelist=node[1-2]", "--ntasks=4").stderr
        session = self.add("steps", "--launcher", "srun", "--allocation",
                           re.search(r"allocation (\d+)", said).group(1))
        job = self.start(session)
        self.running_on((1, 2), job)
        session_case.lab("lose", "2")
        self.assert_ends_with(session, job, "node node2 was lost")

    def test_y_a_lost_node_is_named_also_when_it_held_the_script(self):
        session = self.add("lost", "--launcher", "sbatch", "--line",
                           "#SBATCH --nodelist=node[1,3]")
        job = self.start(session)
        self.running_on((1, 3), job)
        self.assertIn("BatchHost=node1", slurm("scontrol", "show", "job", number_of(job)))
        session_case.lab("lose", "1")
        self.assert_ends_with(session, job, "node node1 was lost")
        for node in (0, 3):
            self.assertEqual(self.processes(node, job), [])


if __name__ == "__main__":
    sys.exit(session_case.main("__main__", 4, "--racks", "2",
                               slurm=("--slurm", "3")))

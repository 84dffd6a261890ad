# SPDX-License-Identifier: Apache-2.0
"""A real Slurm inside the lab: munge and the controller on node0, one slurmd on every compute node.

Partitions: main (the default, every compute node), spare (the same nodes), small (node1 alone, a
minute at most) and closed (for the account physics only). Every node has two GPUs to give away, which
are none. A switch for each rack. Every node sees it as its /etc/slurm. With accounts, slurmdbd on node0
keeps them in a database of the lab's own, and the controller forgets a job seconds after its end."""
import os
import shutil
import subprocess
from pathlib import Path

from lab_error import LabError

CONFIGURATION = "slurm"  # folder of the lab's that nodes see as /etc/slurm
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol")
OF_ACCOUNTS = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb-install-db")


def missing(accounts=False):
    """The first program that is not installed; empty when all are."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for program in PROGRAMS + (OF_ACCOUNTS if accounts else ()):
        if shutil.which(program, path=path) is None:
            return program
    return "" if Path("/etc/slurm").is_dir() else "/etc/slurm"


class SlurmCluster:
    def __init__(self, folder, rack_of, accounts=False):
        """rack_of: the rack of node0, node1, ...; node0 controls, the others compute."""
        self.folder = folder
        self.accounts = accounts
        self.rack_of = rack_of
        self.compute = range(1, len(rack_of))

    def write_configuration(self):
        place = self.folder / CONFIGURATION
        place.mkdir()
        (self.folder / "munge").mkdir(mode=0o711)
        (self.folder / "state").mkdir()
        key = self.folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        nodes = "".join(f"NodeName=node{k} NodeAddr=10.77.0.{k + 1} CPUs=2 RealMemory=2000 "
                        "Gres=gpu:lab:2\n"
                        for k in self.compute)
        kept = "AccountingStorageType=accounting_storage/none\n"
        if self.accounts:
            kept = ("AccountingStorageType=accounting_storage/slurmdbd\n"
                    f"AccountingStorageHost=node0\nAccountingStoragePass={self.folder}/munge/socket\n"
                    "MinJobAge=2\n")
            self.write_accounts(place)
        # Times are short: a node is given up after 5 s, a step has 5 s between SIGTERM and SIGKILL.
        (place / "slurm.conf").write_text(
            "ClusterName=lab\nSlurmctldHost=node0(10.77.0.1)\nSlurmUser=root\nSlurmdUser=root\n"
            f"AuthType=auth/munge\nAuthInfo=socket={self.folder}/munge/socket\n"
            f"StateSaveLocation={self.folder}/state\nSlurmdSpoolDir={self.folder}/spool.%n\n"
            f"SlurmctldPidFile={self.folder}/slurmctld.pid\n"
            f"SlurmdPidFile={self.folder}/slurmd.%n.pid\n"
            f"SlurmctldLogFile={self.folder}/slurmctld.log\n"
            f"SlurmdLogFile={self.folder}/slurmd.%n.log\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
            f"JobAcctGatherType=jobacct_gather/none\n{kept}"
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n"
            "SlurmdParameters=config_overrides\nTopologyPlugin=topology/tree\nReturnToService=2\n"
            "SlurmdTimeout=5\nKillWait=10\nSchedulerParameters=bf_interval=1,sched_min_interval=0\n"
            f"GresTypes=gpu\n{nodes}"
            f"PartitionName=main Nodes=ALL Default=YES MaxTime=1:00:00\n"
            f"PartitionName=spare Nodes=ALL MaxTime=1:00:00\n"
            f"PartitionName=small Nodes=node1 MaxTime=1\n"
            f"PartitionName=closed Nodes=ALL AllowAccounts=physics\n")
        racks = sorted({self.rack_of[k] for k in self.compute})
        switches = "".join(
            f"SwitchName=rack{rack} Nodes="
            + ",".join(f"node{k}" for k in self.compute if self.rack_of[k] == rack) + "\n"
            for rack in racks)
        if len(racks) > 1:
            switches += "SwitchName=top Switches=" + ",".join(f"rack{r}" for r in racks) + "\n"
        (place / "topology.conf").write_text(switches)
        # GPUs that are counted and given away; no device is behind them.
        (place / "gres.conf").write_text("AutoDetect=off\nName=gpu Type=lab File=/dev/null\n"
                                         "Name=gpu Type=lab File=/dev/zero\n")
        (place / "mpi.conf").write_text("PMIxCliTmpDirBase=/mnt\n")

    def write_accounts(self, place):
        (self.folder / "database").mkdir(mode=0o700)
        (self.folder / "database.sql").write_text(
            "GRANT ALL ON slurm_acct_db.* TO 'slurm'@'%' IDENTIFIED BY 'slurm';\n")
        file = place / "slurmdbd.conf"
        file.write_text(
            "AuthType=auth/munge\n"
            f"AuthInfo=socket={self.folder}/munge/socket\nDbdHost=node0\nSlurmUser=root\n"
            f"PidFile={self.folder}/slurmdbd.pid\nLogFile={self.folder}/slurmdbd.log\n"
            "StorageType=accounting_storage/mysql\nStorageHost=10.77.0.1\nStorageUser=slurm\n"
            "StoragePass=slurm\n")
        file.chmod(0o600)

    def start_accounts(self, lab):
        database = self.folder / "database"
        self.service(lab, 0, "mariadb-install-db", "--no-defaults", "--user=root",
                     f"--datadir={database}", "--skip-test-db")
        # Small buffers: a handful of jobs is written.
        self.service(lab, 0, "sh", "-c", 'exec setsid --fork "$@" > "$0" 2>&1',
                     f"{self.folder}/database.log", "mariadbd", "--no-defaults", "--user=root",
                     f"--datadir={database}", f"--socket={self.folder}/database.socket",
                     f"--pid-file={self.folder}/database.pid", "--bind-address=10.77.0.1",
                     "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M",
                     f"--init-file={self.folder}/database.sql")
        lab.wait_until(lambda: (self.folder / "database.pid").exists(), "the database does not start")
        self.service(lab, 0, "slurmdbd")
        # The controller adds its cluster itself; it must find slurmdbd answering.
        ask = lab.enter(0) + ["sacctmgr", "-n", "show", "cluster"]
        lab.wait_until(lambda: subprocess.run(ask, capture_output=True).returncode == 0,
                       "slurmdbd does not answer", seconds=90)

    def start(self, lab):
        munge = self.folder / "munge"
        self.service(lab, 0, "munged", f"--key-file={munge}/key", f"--socket={munge}/socket",
                     f"--pid-file={munge}/pid", f"--log-file={munge}/log",
                     f"--seed-file={munge}/seed")
        if self.accounts:
            self.start_accounts(lab)
        self.service(lab, 0, "slurmctld")
        for k in self.compute:
            self.service(lab, k, "slurmd", "-N", f"node{k}")
        ready = lab.enter(0) + ["sinfo", "-h", "-N", "-p", "main", "-t", "idle", "-o", "%N"]
        lab.wait_until(
            lambda: len(subprocess.run(ready, capture_output=True, text=True).stdout.split())
            == len(self.compute), "the nodes of Slurm do not become idle")

    @staticmethod
    def service(lab, k, program, *arguments):
        environment = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        result = subprocess.run(lab.enter(k) + [program, *arguments], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, env=environment)
        if result.returncode != 0:
            raise LabError(f"{program} of node{k}: {(result.stderr or result.stdout).strip()}")

# SPDX-License-Identifier: Apache-2.0
"""A lab whose last node is the user's own machine, and piperctl on it: what tests of sessions over
several hosts have in common."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).parent
PREFIX = f"labsession{os.getpid()}"
EXAMPLES = HERE.parent.parent / "packaging" / "examples"


class Bench:
    """What all tests of a run of the program share."""
    piperctl = ""
    nodes = 0
    folder = None
    enter = []  # the words that run a command on a node


def lab(*arguments, **options):
    return subprocess.run([str(HERE / "lab"), "--prefix", PREFIX, *arguments], capture_output=True,
                          text=True, timeout=300, **options)


def up(nodes, *more):
    """A lab of so many hosts for the session, and one more for the user."""
    result = lab("up", "--nodes", str(nodes + 1), "--rate", "0", "--uplink", "0",
                 *more)
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    Bench.nodes = nodes
    Bench.enter = [lab("enter", str(k)).stdout.split() for k in range(nodes + 1)]
    Bench.folder = Path(tempfile.mkdtemp(prefix="piper-lab-"))
    (Bench.folder / "home").mkdir()
    os.environ.update(HOME=str(Bench.folder / "home"),
                      PIPER_SESSIONS=str(Bench.folder / "sessions.json"))


def down():
    lab("down")
    if Bench.folder:
        shutil.rmtree(Bench.folder, ignore_errors=True)


def take_down(*_):
    """Ends this program; unittest would go on after an exception."""
    down()
    os._exit(1)


def on(node, *command):
    return subprocess.run([*Bench.enter[node], *command], capture_output=True, text=True, timeout=120)


def user_command(*arguments):
    return [*Bench.enter[Bench.nodes], Bench.piperctl, *arguments]


def wait_until(condition, seconds=60):
    """What condition returns once it is true; its last answer after so long."""
    end = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer or time.monotonic() > end:
            return answer
        time.sleep(0.1)


class Clocked(unittest.TextTestResult):
    """Says how long each test took."""

    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def addSuccess(self, test):
        self.stream.write(f"{time.monotonic() - self.began:.1f} s ")
        super().addSuccess(test)


class SessionCase(unittest.TestCase):
    """Tests that start jobs of a small plan: pp 2, ep 2 on two nodes of two ranks."""

    def setUp(self):
        if not (Bench.folder / "plan.json").exists():
            cluster = json.loads((EXAMPLES / "clusters/local-cpu.json").read_text())
            cluster.update(name="two nodes", nodes=2, devices_per_node=2)
            cluster["levels"][0]["domain_devices"] = 2
            cluster["levels"].append(dict(cluster["levels"][0], name="ethernet", domain_devices=4,
                                          bandwidth_bytes_per_second=125e6,
                                          port_bandwidth_bytes_per_second=125e6))
            plan = json.loads((EXAMPLES / "plans/olmoe-tiny.json").read_text())
            plan.update(model=str(EXAMPLES / "models/olmoe-tiny.json"), cluster=cluster, seq_len=32,
                        global_batch_size=8)
            (Bench.folder / "plan.json").write_text(json.dumps(plan))
        self.plan = str(Bench.folder / "plan.json")

    def ctl(self, *arguments, status=0):
        """piperctl to its end; its result when it ended as expected."""
        result = subprocess.run(user_command(*arguments), capture_output=True, text=True,
                                timeout=120)
        self.assertEqual(result.returncode, status,
                         f"{' '.join(arguments)}\n{result.stdout}{result.stderr}")
        return result

    def json(self, *arguments, status=0):
        return json.loads(self.ctl(*arguments, "--json", status=status).stdout)

    def add(self, name, *more):
        """A session of the lab's first host, sharing one directory with the others."""
        if f'"{name}"' in self.ctl("session", "list", "--json").stdout:
            self.ctl("session", "forget", name)
        self.ctl("session", "add", name, "--host", "node0", "--config",
                 f"/run/{PREFIX}-lab/ssh_config", "--directory", str(Bench.folder / "there"), *more)
        return name

    def start(self, session, steps=100000):
        """A job that goes on; its directory."""
        result = self.ctl("run", self.plan, "--session", session, "--steps", str(steps), "--detach")
        return re.search(r"^job (/.*)$", result.stderr, re.M).group(1)

    def begin(self, *arguments):
        """piperctl beside the test; its output goes to a file."""
        output = open(Bench.folder / "output", "w+")
        self.addCleanup(output.close)
        child = subprocess.Popen(user_command(*arguments), stdout=output, stderr=output, text=True)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child, lambda: Path(output.name).read_text()

    def job(self, session, directory):
        for job in self.json("jobs", "--session", session)["jobs"]:
            if job["directory"] == directory:
                return job
        return {"state": "not listed", "message": ""}

    def state(self, session, directory):
        return self.job(session, directory)["state"]

    def running_on(self, nodes, directory):
        """Waits until ranks have trained a step and live on each of the nodes."""
        def ready():
            try:
                step = json.loads(Path(directory, "status.json").read_text())["step"]
            except (OSError, ValueError):
                return False
            return step > 0 and all(self.processes(node, directory) for node in nodes)
        self.assertTrue(wait_until(ready), f"no ranks on {nodes}: {self.log(directory)}")

    @staticmethod
    def processes(node, directory):
        """Command lines on a node that name the job."""
        found = on(node, "pgrep", "-a", "-f", "--", f"--job {directory} ")
        if found.returncode not in (0, 1):
            raise RuntimeError(f"pgrep on node{node}: {found.stderr}")
        return [line for line in found.stdout.splitlines() if "pgrep" not in line]

    @staticmethod
    def log(directory):
        try:
            return Path(directory, "log.txt").read_text()
        except OSError as error:
            return str(error)

    def assert_nothing_left(self, directory):
        for node in range(Bench.nodes):
            self.assertEqual(self.processes(node, directory), [], f"left on node{node}")


def main(module, hosts, *shape, slurm=()):
    """usage: TEST.py PIPERCTL [unittest options]; PIPERCTL's neighbour is piper-worker."""
    check = subprocess.run([str(HERE / "lab"), "check", *slurm], capture_output=True, text=True)
    if check.returncode == 77:
        print(f"{Path(sys.argv[0]).name}:1: Skipped\n{check.stderr.strip()}\n[  SKIPPED ] lab")
        return 77
    Bench.piperctl = os.path.abspath(sys.argv[1])
    signal.signal(signal.SIGTERM, take_down)
    try:
        up(hosts, *slurm, *shape)
        program = unittest.main(
            module=module, argv=[sys.argv[0], "-v", *sys.argv[2:]], exit=False,
            testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Clocked))
        return 0 if program.result.wasSuccessful() else 1
    finally:
        down()

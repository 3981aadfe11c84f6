"""A small Slurm from Debian's packages: munge, slurmctld and slurmd. Each node has a network namespace on a bridge, and its
own host name. All files are in one folder and are removed with the test.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import uuid

from local_cluster import wait_for
from namespaces import shell

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "ip", "nsenter", "unshare")


def hindrance():
    """Returns why Slurm cannot run here; empty if it can."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    if missing:
        return f"needs Debian's packages slurm-wlm and munge ({', '.join(missing)} is missing)"
    return "needs root" if os.geteuid() != 0 else ""


class Slurm:
    """`nodes` nodes named node1, node2, ... with `cpus` each. The controller and the commands run in the bridge's namespace."""

    def __init__(self, folder, nodes=2, cpus=2):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(mode=0o755)
        self.tag = uuid.uuid4().hex[:6]
        self.spaces, self.daemons = [], []
        # A new folder for each Slurm, since job numbers begin with 1 in each.
        self.jobs = pathlib.Path(tempfile.mkdtemp(prefix=f"sl{self.tag}-"))
        self.jobs.chmod(0o1777)
        self.env = {
            **os.environ,
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
            "TMPDIR": str(self.jobs),
        }
        try:
            self.bridge(nodes)
            self.munge()
            self.configure(nodes, cpus)
            self.start("slurmctld", self.inside("ctl", "slurmctld", "-D", "-f", self.folder / "slurm.conf"))
            for number in range(1, nodes + 1):
                self.start(f"slurmd{number}", self.inside(f"n{number}", "unshare", "--uts", "sh", "-c",
                           f"hostname node{number} && exec slurmd -D -N node{number} -f '{self.folder}/slurm.conf'"))  # fmt: skip
            wait_for("the nodes of Slurm", lambda: self.idle() == nodes, 30)
        except BaseException:
            self.stop()
            raise

    def space(self, name):
        return f"sl{self.tag}-{name}"

    def inside(self, name, *command):
        # Not `ip netns exec`: that mounts another /sys without control groups, which slurmd requires.
        return ["nsenter", f"--net=/run/netns/{self.space(name)}", *map(str, command)]

    def bridge(self, nodes):
        for name in ["ctl", *[f"n{number}" for number in range(1, nodes + 1)]]:
            shell("ip", "netns", "add", self.space(name))
            self.spaces.append(name)
            shell(*self.inside(name, "ip", "link", "set", "lo", "up"))
        shell(*self.inside("ctl", "ip", "link", "add", "br0", "type", "bridge"))
        shell(*self.inside("ctl", "ip", "addr", "add", "10.78.0.1/24", "dev", "br0"))
        shell(*self.inside("ctl", "ip", "link", "set", "br0", "up"))
        for number in range(1, nodes + 1):
            near, far = f"p{self.tag}{number}", f"q{self.tag}{number}"
            shell("ip", "link", "add", near, "netns", self.space("ctl"), "type", "veth", "peer", "name", far,
                  "netns", self.space(f"n{number}"))  # fmt: skip
            shell(*self.inside("ctl", "ip", "link", "set", near, "master", "br0", "up"))
            # The first address of the node is not reachable from the others.
            shell(*self.inside(f"n{number}", "ip", "addr", "add", f"192.0.2.{number}/32", "dev", far))
            shell(*self.inside(f"n{number}", "ip", "addr", "add", f"10.78.0.{number + 1}/24", "dev", far))
            shell(*self.inside(f"n{number}", "ip", "link", "set", far, "up"))

    def munge(self):
        place = self.folder / "munge"
        place.mkdir(mode=0o755)
        (place / "key").write_bytes(os.urandom(1024))
        (place / "key").chmod(0o400)
        self.socket = place / "socket"
        self.start("munged", ["munged", "-F", "--force", f"--socket={self.socket}", f"--key-file={place / 'key'}",
                              f"--log-file={place / 'log'}", f"--pid-file={place / 'pid'}", f"--seed-file={place / 'seed'}"])  # fmt: skip
        wait_for("munge", self.socket.exists, 20)

    def configure(self, nodes, cpus):
        # Control groups are not used (linuxproc, task/none), but slurmd of 22.05 loads the plugin.
        version = "v2" if pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"
        (self.folder / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/{version}\nIgnoreSystemd=yes\n")
        for name in ("state", *[f"spool-node{number}" for number in range(1, nodes + 1)]):
            (self.folder / name).mkdir()
        rows = "\n".join(
            f"NodeName=node{n} NodeAddr=10.78.0.{n + 1} NodeHostname=node{n} CPUs={cpus} RealMemory=512 State=UNKNOWN"
            for n in range(1, nodes + 1)
        )
        (self.folder / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={os.uname().nodename}(10.78.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.socket}
CryptoType=crypto/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerType=sched/builtin
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool-%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
ReturnToService=2
KillWait=20
MinJobAge=600
OverTimeLimit=0
SlurmctldDebug=info
SlurmdDebug=info
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd-%n.log
{rows}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
""")

    def start(self, name, command):
        with open(self.folder / f"{name}.out", "w") as log:
            self.daemons.append(
                subprocess.Popen(list(map(str, command)), env=self.env, stdout=log, stderr=log, start_new_session=True)
            )

    def run(self, *command, **options):
        return subprocess.run(self.inside("ctl", *command), env=self.env, capture_output=True, text=True, timeout=120, **options)

    def idle(self):
        return self.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").stdout.count("node")

    def job(self, number):
        """Returns {key: value} of `scontrol show job`."""
        shown = self.run("scontrol", "show", "job", "-o", str(number)).stdout
        return dict(pair.split("=", 1) for pair in shown.split() if "=" in pair)

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in self.left_behind():
            os.kill(pid, signal.SIGKILL)
        for name in self.spaces:
            subprocess.run(["ip", "netns", "del", self.space(name)], capture_output=True)
        shutil.rmtree(self.jobs, ignore_errors=True)

    def left_behind(self):
        """Yields the processes that still run in the namespaces: steps of jobs of a failed test."""
        for name in self.spaces:
            listed = subprocess.run(["ip", "netns", "pids", self.space(name)], capture_output=True, text=True).stdout
            yield from map(int, listed.split())

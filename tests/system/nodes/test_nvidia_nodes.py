"""Tests that the agent makes NVIDIA's device files before it starts workers, which may start no setuid program. Fake driver
files in /proc and a separate /dev replace a machine with GPUs.
"""

import os
import shutil
import stat
import subprocess

import pytest
from jobs_on_disk import write_job
from mapped_users import PERSON, MappedUsers, submit_as

DRIVER = """
set -e
mount --make-rprivate /
mkdir -p "$1/dev"
cp /proc/devices "$1/devices"
sed -i 's/^Character devices:$/&\\n195 nvidia-frontend\\n511 nvidia-uvm/' "$1/devices"
mount --bind "$1/devices" /proc/devices
mount -t tmpfs driver /proc/driver
mkdir -p /proc/driver/nvidia/gpus/0000:1b:00.0
printf 'ModifyDeviceFiles: 1\\nDeviceFileUID: 0\\nDeviceFileGID: 0\\nDeviceFileMode: 438\\n' > /proc/driver/nvidia/params
printf 'Model: \\t NVIDIA H100\\nDevice Minor: \\t 3\\n' > /proc/driver/nvidia/gpus/0000:1b:00.0/information
mount -t tmpfs -o mode=755 devices "$1/dev"
for one in null zero full random urandom tty; do cp -a /dev/$one "$1/dev/"; done
ln -s /proc/self/fd "$1/dev/fd"
mkdir -m 1777 "$1/dev/shm"
mount --bind "$1/dev" /dev
shift
exec "$@"
"""
NODES = {
    "nvidiactl": (195, 255),
    "nvidia-modeset": (195, 254),
    "nvidia3": (195, 3),
    "nvidia-uvm": (511, 0),
    "nvidia-uvm-tools": (511, 1),
}


def possible(folder):
    """Returns true if this process may mount and make device files."""
    made = subprocess.run(["mknod", folder / "probe", "c", "195", "255"], capture_output=True, check=False)
    return (
        made.returncode == 0 and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    )


class WithDriver(MappedUsers):
    def command(self, name, *arguments):
        command = super().command(name, *arguments)
        if name == "head":
            return command
        place = self.folder / f"{name}-machine"
        place.mkdir()
        return ["unshare", "--mount", "bash", "-c", DRIVER, "bash", place, *command, "--fake-gpus", "1xH100"]

    def device(self, name, device):
        return f"/proc/{self.daemons[name].pid}/root/dev/{device}"


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="mounts and makes device files")
def test_device_files_are_there_when_the_agent_serves_and_again_when_a_worker_starts(folder):
    if not possible(folder):
        pytest.skip("this container makes no device files")
    cluster = WithDriver(folder / "cluster", nodes=1, resources="CPU=1")
    try:
        for name, (major, minor) in NODES.items():
            seen = os.lstat(cluster.device("node-1", name))
            assert stat.S_ISCHR(seen.st_mode) and stat.S_IMODE(seen.st_mode) == 0o666, name
            assert (os.major(seen.st_rdev), os.minor(seen.st_rdev)) == (major, minor), name
        os.unlink(cluster.device("node-1", "nvidia3"))  # simulates a reloaded driver
        script = "stat -c '%F %t %T' /dev/nvidia3; id -un"
        facts = submit_as(cluster, PERSON, write_job(folder, "sees", script, scaling={"resources_per_worker": {"GPU": 1}}))
        assert facts["state"] == "SUCCEEDED", facts["reason"]
        assert cluster.rtrain("logs", "sees", "--stream", "out").splitlines() == ["character special file c3 3", PERSON]
    finally:
        cluster.stop()

"""A head and agents in separate network namespaces, each agent with a private file system.

ns head: bridge, 10.77.0.1 ── veth ── ns node-1: 10.77.0.2, and docker0, 172.17.0.1, without a connection
                           └─ veth ── ns node-2: 10.77.0.3, and the same docker0
"""

import os
import subprocess
import uuid

from local_cluster import RTRAIN, LocalCluster


def shell(*command):
    subprocess.run([str(part) for part in command], check=True, capture_output=True)


class NamespacedCluster(LocalCluster):
    """`LocalCluster` over three namespaces. `cut(node)` and `mend(node)` disconnect and reconnect a node's network."""

    HOST = "10.77.0.1"

    def __init__(self, folder, nodes=2, resources="CPU=1", head_options=()):
        self.tag = uuid.uuid4().hex[:6]
        self.head_options = head_options
        self.namespaces = []
        try:
            self.add_head_namespace()
            for number in range(1, nodes + 1):
                self.add_node_namespace(number)
            super().__init__(folder, nodes, resources)
        except BaseException:
            self.remove_namespaces()
            raise

    def namespace(self, name):
        return f"rt{self.tag}-{name}"

    def inside(self, name, *command):
        return ["ip", "netns", "exec", self.namespace(name), *command]

    def add_head_namespace(self):
        self.add_namespace("head")
        shell(*self.inside("head", "ip", "link", "add", "br0", "type", "bridge"))
        shell(*self.inside("head", "ip", "addr", "add", f"{self.HOST}/24", "dev", "br0"))
        shell(*self.inside("head", "ip", "link", "set", "br0", "up"))

    def add_namespace(self, name):
        shell("ip", "netns", "add", self.namespace(name))
        self.namespaces.append(name)
        shell(*self.inside(name, "ip", "link", "set", "lo", "up"))

    def add_node_namespace(self, number):
        name, near, far = f"node-{number}", f"p{self.tag}{number}", f"q{self.tag}{number}"
        self.add_namespace(name)
        shell(
            "ip",
            "link",
            "add",
            near,
            "netns",
            self.namespace("head"),
            "type",
            "veth",
            "peer",
            "name",
            far,
            "netns",
            self.namespace(name),
        )
        shell(*self.inside("head", "ip", "link", "set", near, "master", "br0", "up"))
        shell(*self.inside(name, "ip", "link", "add", "docker0", "type", "bridge"))
        shell(*self.inside(name, "ip", "addr", "add", "172.17.0.1/16", "dev", "docker0"))
        shell(*self.inside(name, "ip", "link", "set", "docker0", "up"))
        shell(*self.inside(name, "ip", "addr", "add", f"{self.address(name)}/24", "dev", far))
        shell(*self.inside(name, "ip", "link", "set", far, "up"))

    def address(self, name):
        if name == "head":
            return self.HOST
        return f"10.77.0.{int(name.rsplit('-', 1)[1]) + 1}"

    def start_head(self):
        self.start(
            "head", "head", "start", "--host", self.HOST, "--port", self.port, "--data", self.folder / "head", *self.head_options
        )

    def head_address(self):
        return f"{self.HOST}:{self.port}"

    def command(self, name, *arguments):
        if name == "head":
            return self.inside("head", RTRAIN, *map(str, arguments))
        # The node's data are on a tmpfs in a separate mount namespace, which no other process sees.
        private = self.folder / name
        private.mkdir(exist_ok=True)
        script = f'mount --make-rprivate / && mount -t tmpfs private "{private}" && exec "$@"'
        return self.inside(name, "unshare", "--mount", "sh", "-c", script, "sh", RTRAIN, *map(str, arguments))

    def run(self, *arguments):
        command = self.inside("head", RTRAIN, *map(str, arguments))
        return subprocess.run(command, env=self.env, capture_output=True, text=True)

    def cut(self, name):
        number = name.rsplit("-", 1)[1]
        shell(*self.inside("head", "ip", "link", "set", f"p{self.tag}{number}", "down"))

    def mend(self, name):
        number = name.rsplit("-", 1)[1]
        shell(*self.inside("head", "ip", "link", "set", f"p{self.tag}{number}", "up"))

    def forbid(self, from_name, to_name):
        """Makes the kernel refuse packets from `from_name` to `to_name` immediately. Both still reach the head."""
        shell(*self.inside(from_name, "ip", "route", "add", "prohibit", f"{self.address(to_name)}/32"))

    def swallow(self, from_name, to_name):
        """Drops all packets from `from_name` to `to_name` without a notice, as a firewall does."""
        far = f"q{self.tag}{from_name.rsplit('-', 1)[1]}"
        nobody = ("lladdr", "02:00:00:00:00:99", "nud", "permanent")
        shell(*self.inside(from_name, "ip", "neigh", "replace", self.address(to_name), *nobody, "dev", far))

    def stop(self):
        try:
            super().stop()
        finally:
            self.remove_namespaces()

    def remove_namespaces(self):
        for name in reversed(self.namespaces):
            subprocess.run(["ip", "netns", "del", self.namespace(name)], capture_output=True)
        self.namespaces = []


def possible():
    """Returns true if this process may make namespaces (as root, and if the kernel permits it)."""
    if os.geteuid() != 0:
        return False
    name = f"rtprobe{os.getpid()}"
    added = subprocess.run(["ip", "netns", "add", name], capture_output=True).returncode == 0
    if added:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return added

"""Clusters whose agents run as root and start workers as other users of this machine, for tests that separate users."""

import json
import subprocess

from local_cluster import RTRAIN, LocalCluster

PERSON = "nobody"
# A program that speaks the worker protocol by itself, without the library.
WORKER = """
import json, os, socket, struct, sys

link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["RTRAIN_WORKER_SOCKET"])
stream = link.makefile("rb")


def send(**fields):
    body = json.dumps(fields).encode()
    link.sendall(struct.pack(">I", len(body)) + body)


def hear(kind):
    while True:
        frame = json.loads(stream.read(struct.unpack(">I", stream.read(4))[0]))
        if frame["type"] == kind:
            return frame


def report(index, path, upload):
    files = {"path": path, "directory_name": ""}
    send(type="report", index=index, metrics={}, checkpoint=files, upload=upload)
    hear("reported")


me = {"attempt": os.environ["RTRAIN_ATTEMPT"], "rank": 0, "pid": os.getpid(), "key": os.environ["RTRAIN_WORKER_KEY"]}
send(type="hello", protocol=1, min_protocol=1, next_index=1, uncommitted=[], **me)
hear("welcome")
what, target = sys.argv[1:]
if what == "foreign":
    report(1, target, "none")
    report(2, target, "async")
else:
    send(type="stage")
    stage = hear("staged")["path"]
    with open(stage + "/model.bin", "w") as file:
        file.write("weights")
    os.symlink("model.bin", stage + "/newest")
    os.symlink(target, stage + "/x")
    report(1, stage, "async")
    print(json.dumps(hear("committed")["directory"]))
"""


class MappedUsers(LocalCluster):
    def command(self, name, *arguments):
        return [word for word in super().command(name, *arguments) if word != "--allow-root-workers"]


def submit_as(cluster, user, path):
    """Submits a job as the user; returns the run's final facts."""
    token = cluster.json("token", "create", "--role", "user", "--user", user)["token"]
    subprocess.run([RTRAIN, "submit", path, "-f"], env={**cluster.env, "RTRAIN_TOKEN": token}, capture_output=True, text=True)
    return cluster.json("describe", json.loads(path.read_text())["name"])

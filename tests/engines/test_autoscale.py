"""Tests autoscaling: a head runs the operator's commands, which start and end simulated nodes on loopback. Nodes of users
stay, failed commands are reported, and commands receive no secret. A head accepts the example files, and their scripts run
with stand-ins.
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import textwrap

import pytest
import yaml
from jobs_on_disk import write_job
from local_cluster import ROOT, RTRAIN, LocalCluster, program_in, wait_for

EXAMPLES = ROOT / "configs" / "autoscale"
OVERLAY = ROOT / "configs" / "kubernetes" / "overlays" / "autoscale"

MACHINES = """\
#!/bin/sh
# Machines are simulators of one node each; a file tells their process.
set -eu
folder=$1 action=$2 what=$3
env > "$folder/environment-$action"
case $action in
  provision)
    cat > "$folder/input"
    while [ "$what" -gt 0 ]; do
      what=$((what - 1))
      name=m$$-$what
      echo "node=$name-0001"
      if [ -e "$folder/stuck" ]; then touch "$folder/$name-0001.pid"; continue; fi
      RTRAIN_CONFIG=$folder/none setsid {rtrain} node simulate "$(cat "$folder/address")" --token-file "$folder/token" --count 1 \\
        --name "$name" --resources CPU=4 --fake-gpus 2xA100 --label rtrain.autoscale=true --run-seconds 1 \\
        > "$folder/$name.log" 2>&1 &
      echo $! > "$folder/$name-0001.pid"
    done
    ;;
  release)
    echo "$what" >> "$folder/released"
    cat > "$folder/input-release"
    if [ -s "$folder/$what.pid" ]; then kill "$(cat "$folder/$what.pid")"; fi
    rm "$folder/$what.pid"
    ;;
esac
"""


class Scaled(LocalCluster):
    def __init__(self, folder, commands, **fields):
        self.place = folder.parent / "machines"
        self.place.mkdir(mode=0o755, parents=True)
        script = self.place / "machines"
        program = program_in(folder.parent / "a program")
        script.write_text(commands.replace("{rtrain}", shlex.quote(str(program))))
        script.chmod(0o755)
        rules = {"provision": [str(script), str(self.place), "provision"], "release": [str(script), str(self.place), "release"],
                 "node": {"CPU": 4, "GPU": 2, "accelerator_type:A100": 1}, "max": 3, "idle": "2s", "cooldown": "1s", "timeout": "60s"}  # fmt: skip
        self.rules = self.place / "autoscale.yaml"
        self.rules.write_text(yaml.safe_dump({"version": 1, "autoscale": rules | fields}))
        self.rules.chmod(0o600)  # independent of the umask
        super().__init__(folder, nodes=0, program=program)
        (self.place / "address").write_text(self.head_address())
        (self.place / "token").write_text(self.json("token", "create", "--role", "node", "--uses", 50)["token"])
        (self.place / "token").chmod(0o600)

    def start_head(self):
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head", "--autoscale", self.rules)

    def texts(self):
        return [one["text"] for one in self.json("events")["items"] if "autoscale" in (one["text"] or "")]

    def commands(self, action, result):
        token = self.json("token", "create", "--role", "metrics", "--user", "p")["token"]
        row = re.search(
            rf'autoscale_commands_total{{action="{action}",result="{result}"}} (\d+)', self.fetched("/metrics", token)
        )
        return int(row[1]) if row else 0

    def stop(self):
        super().stop()
        for file in self.place.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.fixture
def started(tmp_path):
    made = []

    def start(commands=MACHINES, **fields):
        made.append(Scaled(tmp_path / "odd plätze" / "c", commands, **fields))
        return made[0]

    yield start
    for one in made:
        one.stop()


def test_machines_come_for_what_waits_and_go_when_they_are_idle(started, tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-head")
    cluster = started()
    token = cluster.json("token", "create", "--role", "node")["token"]
    cluster.start("hand", "node", "simulate", cluster.head_address(), "--token", token, "--count", 1, "--name", "hand")
    wait_for("the node of a person", lambda: cluster.ready_nodes() == 1)
    cluster.rtrain("submit", write_job(tmp_path, "gang", "true", workers=4, scaling={"use_gpu": True}))
    queue = cluster.json("queue")
    assert queue["demand"] == [{"resources": {"GPU": "1"}, "label_selector": [], "placement": "PACK", "workers": 4, "runs": 1,
                                "largest_run": 4}]  # fmt: skip
    cluster.wait_state("gang", "SUCCEEDED", seconds=120)
    nodes = {node for worker in cluster.json("describe", "gang")["attempt_list"][0]["workers"] for node in [worker["node"]]}
    assert len(nodes) == 2 and all(node.startswith("m") for node in nodes)
    wait_for("the machines to go", lambda: [one["node"] for one in cluster.json("nodes")["items"]] == ["hand-0001"], 60)
    assert set((cluster.place / "released").read_text().split()) == nodes
    assert not list(cluster.place.glob("*.pid"))
    assert cluster.commands("provision", "done") == 1 and cluster.commands("release", "done") == 2
    assert any("orders 2 nodes" in text for text in cluster.texts())

    given = json.loads((cluster.place / "input").read_text())
    assert given["demand"] == [{"resources": {"GPU": "1"}, "runs": 1, "workers": 4}]
    environment = dict(
        line.split("=", 1) for line in (cluster.place / "environment-provision").read_text().splitlines() if "=" in line
    )
    assert set(environment) <= {
        "PATH",
        "HOME",
        "LANG",
        "RTRAIN_AUTOSCALE",
        "RTRAIN_AUTOSCALE_NODES",
        "RTRAIN_AUTOSCALE_MAX",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    }
    assert environment["RTRAIN_AUTOSCALE_NODES"] == "2" and environment["RTRAIN_AUTOSCALE_MAX"] == "3"
    written = (cluster.place / "input-release").read_text()
    last = json.loads(written)
    assert '"ordered":0}' in written  # the form that the script for StatefulSets reads
    assert last["ordered"] == 0 and len(last["nodes"]) == 1 and set(last["nodes"]) < nodes  # the other node had left


def test_a_node_whose_machine_is_being_deleted_is_not_taken_back(started, tmp_path):
    hold = tmp_path / "odd plätze" / "machines" / "hold"
    waits = f'    touch "$folder/releasing"\n    while [ -e "{hold}" ]; do sleep 0.1; done\n    cat > "$folder/input-release"\n'
    cluster = started(MACHINES.replace('    cat > "$folder/input-release"\n', waits))
    hold.touch()
    cluster.rtrain("submit", write_job(tmp_path, "one", "true", scaling={"use_gpu": True}))
    cluster.wait_state("one", "SUCCEEDED", seconds=120)
    wait_for("release to run", (cluster.place / "releasing").exists, 60)
    (node,) = [one["node"] for one in cluster.json("nodes")["items"]]
    refusal = cluster.run("node", "undrain", node)
    assert refusal.returncode != 0 and "being given back" in refusal.stderr, refusal.stderr
    hold.unlink()
    wait_for("the node to leave", lambda: not cluster.json("nodes")["items"], 60)


def test_a_command_that_fails_or_hangs_is_told_and_tried_again(started, tmp_path):
    flag = tmp_path / "odd plätze" / "machines" / "fixed"
    commands = MACHINES.replace(
        "case $action in", f'[ -e "{flag}" ] || {{ echo "no quota for A100" >&2; exit 9; }}\ncase $action in', 1
    )
    cluster = started(commands)
    cluster.rtrain("submit", write_job(tmp_path, "one", "true", scaling={"use_gpu": True}))
    wait_for("two failures", lambda: cluster.commands("provision", "failed") >= 2, 60)
    assert any("exit code 9" in text and "no quota for A100" in text for text in cluster.texts())
    flag.touch()
    cluster.wait_state("one", "SUCCEEDED", seconds=60)


def test_machines_that_never_join_are_given_back_also_by_a_new_head(started, tmp_path):
    cluster = started(timeout="6s", max=2)
    (cluster.place / "stuck").touch()
    cluster.rtrain(
        "submit", write_job(tmp_path, "two", "true", workers=2, scaling={"use_gpu": True, "placement": "STRICT_SPREAD"})
    )
    wait_for("the order", lambda: cluster.commands("provision", "done") == 1, 60)
    named = {file.stem for file in cluster.place.glob("*.pid")}
    assert len(named) == 2
    cluster.json("token", "create", "--role", "node")  # the head has stored the order before this answer
    cluster.kill("head")
    cluster.restart("head")
    wait_for("both machines to go", lambda: not list(cluster.place.glob("*.pid")), 90)
    assert set((cluster.place / "released").read_text().split()) == named
    assert any("which never joined" in text for text in cluster.texts())
    (cluster.place / "stuck").unlink()
    cluster.wait_state("two", "SUCCEEDED", seconds=90)


def test_a_command_that_hangs_is_ended_with_all_that_it_started(started, tmp_path):
    hangs = '#!/bin/sh\nsleep 1000 &\necho $! > "$1/child"\nwait\n'
    cluster = started(hangs, timeout="1s")
    cluster.rtrain("submit", write_job(tmp_path, "one", "true", scaling={"use_gpu": True}))
    wait_for("the timeout", lambda: any("longer than its timeout" in text for text in cluster.texts()), 60)
    child = int((cluster.place / "child").read_text())
    wait_for("its child to be gone", lambda: not pathlib.Path(f"/proc/{child}").exists(), 20)
    assert cluster.run("status").returncode == 0


def test_a_head_that_dies_while_its_command_runs_does_not_order_again(started, tmp_path):
    sleeping = '#!/bin/sh\necho "$@" >> "$1/calls"\necho $$ > "$1/command.pid"\nexec sleep 1000\n'
    cluster = started(sleeping, timeout="6s", cooldown="10m")
    cluster.rtrain("submit", write_job(tmp_path, "one", "true", scaling={"use_gpu": True}))
    wait_for("the command", (cluster.place / "command.pid").exists, 60)
    cluster.kill("head")
    cluster.restart("head")
    wait_for("what was ordered to be given up", lambda: any("did not join in time" in text for text in cluster.texts()), 90)
    assert (cluster.place / "calls").read_text() == f"{cluster.place} provision 1\n"


def refused(tmp_path, text, mode=0o600, program_mode=0o755):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(program_mode)
    file = tmp_path / "autoscale.yaml"
    file.write_text(textwrap.dedent(text).replace("PROGRAM", str(program)))
    file.chmod(mode)
    done = subprocess.run([RTRAIN, "head", "start", "--port", "0", "--data", tmp_path / "head", "--autoscale", file], timeout=30,
                          capture_output=True, text=True, env={**os.environ, "RTRAIN_CONFIG": str(tmp_path / "c.yaml")})  # fmt: skip
    return done.returncode, done.stderr


def test_what_others_could_change_is_never_run(tmp_path):
    good = "autoscale: {provision: PROGRAM, release: [PROGRAM], node: {CPU: 4}, max: 2}\n"
    assert refused(tmp_path, good, mode=0o666)[0] == 4
    assert "may be written by others" in refused(tmp_path, good, mode=0o620)[1]
    code, words = refused(tmp_path, good, program_mode=0o777)
    assert code == 4 and "may be written by others" in words
    code, words = refused(tmp_path, good.replace("PROGRAM", "program"))
    assert code == 4 and "whole path" in words
    code, words = refused(tmp_path, "autoscale: {provision: PROGRAM, node: {GPU: 1.5}, max: 0, idel: 1m}\n")
    assert code == 4
    for word in ("release", "whole GPUs", "from 1 to 10000", "idel"):
        assert word in words, words


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")
def test_a_folder_that_is_open_but_mounted_read_only_is_fine(tmp_path):
    """Simulates a ConfigMap mount of Kubernetes: mode 0777, files behind links."""
    volume = tmp_path / "volume"
    (volume / "..1").mkdir(parents=True)
    (volume / "..data").symlink_to("..1")
    (volume / "..1" / "autoscale.yaml").write_text("autoscale: {provision: /bin/true, release: /bin/true, max: 2}\n")
    (volume / "autoscale.yaml").symlink_to("..data/autoscale.yaml")
    volume.chmod(0o777)
    start = [RTRAIN, "head", "start", "--port", "0", "--data", tmp_path / "head", "--autoscale", volume / "autoscale.yaml"]
    run = {"timeout": 60, "capture_output": True, "text": True, "env": {**os.environ, "RTRAIN_CONFIG": str(tmp_path / "c.yaml")}}
    assert "may be written by others" in subprocess.run(start, **run).stderr
    script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    read = subprocess.run(["unshare", "--mount", "sh", "-c", script, volume, *start], **run)
    assert "autoscale.node: is missing" in read.stderr, read.stderr  # the file was read


@pytest.mark.parametrize("name", ["statefulset", "ec2", "gce"])
def test_the_examples_are_read_and_their_scripts_call_what_they_should(name, tmp_path):
    folder, file = (OVERLAY, "autoscale.yaml") if name == "statefulset" else (EXAMPLES, f"{name}.yaml")
    script = tmp_path / name  # in a new folder, as a checkout may be writable for a group
    script.write_text((folder / name).read_text())
    script.chmod(0o755)
    words = (folder / file).read_text().replace("/etc/rtrain/", f"{tmp_path}/")
    bad, complaint = refused(tmp_path, words.replace("max:", "mux:"))  # all other fields of the file are valid
    assert bad == 4 and set(re.findall(r"error: autoscale\.(\w+)", complaint)) == {"mux", "max"}, complaint
    rules = yaml.safe_load(words)["autoscale"]
    calls = tmp_path / "calls"
    for tool in ("kubectl", "aws", "gcloud"):
        (tmp_path / tool).write_text(
            f'#!/bin/sh\necho {tool} "$@" >> {calls}\ncase "$*" in *jsonpath*) echo 3;; *describe*i-0abc*) echo i-0abc;; '
            "*run-instances*) printf 'i-0abc\\ti-0abd\\n';; *list*) printf 'rtrain-17-001\\nrtrain-17-002\\n';; "
            "*scale*) echo statefulset.apps/rtrain-workers scaled;; *describe*17-001*) echo node;; esac\n"
        )
        (tmp_path / tool).chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RTRAIN_AUTOSCALE_MAX": "16"}
    run = {"env": env, "capture_output": True, "text": True, "input": '{"nodes":[],"ordered":0}\n'}
    node = {"statefulset": "rtrain-workers-2", "ec2": "i-0abc", "gce": "rtrain-17-001"}[name]
    ordered = subprocess.run([*rules["provision"], "2"], **run)
    assert ordered.returncode == 0
    assert [line for line in ordered.stdout.splitlines() if line.startswith("node=")] == [f"node={one}" for one in {
        "statefulset": ["rtrain-workers-3", "rtrain-workers-4"], "ec2": ["i-0abc", "i-0abd"],
        "gce": ["rtrain-17-001", "rtrain-17-002"]}[name]]  # fmt: skip
    given_back = subprocess.run([*rules["release"], node], **run)
    assert given_back.returncode == 0 and "node=" not in given_back.stdout
    made = calls.read_text()
    for part in {"statefulset": ["--replicas=5", "--current-replicas=3 --replicas=2"], "ec2": ["--count 2", "--instance-ids i-0abc"],
                 "gce": ["--count=2", "delete rtrain-17-001"]}[name]:  # fmt: skip
        assert part in made, made
    other = subprocess.run([*rules["release"], "a-node-of-a-person; reboot"], **run)
    assert other.returncode == (75 if name == "statefulset" else 1)
    assert not re.search("reboot", calls.read_text())
    if name != "statefulset":  # the machine of somebody else, which joined with a stolen token under this name
        before = calls.read_text()
        other = subprocess.run([*rules["release"], {"ec2": "i-0def", "gce": "rtrain-of-others"}[name]], **run)
        assert other.returncode == 1 and "rtrain=node" in other.stderr
        assert not re.search("terminate|delete", calls.read_text().removeprefix(before))


@pytest.mark.parametrize(
    "action, what, nodes, ordered, code, replicas",
    [
        ("provision", "2", [], 0, 0, 5),
        ("provision", "20", [], 0, 0, 6),  # up to the maximum
        ("release", "w-2", [0, 1, 2], 0, 0, 2),
        ("release", "w-1", [0, 1, 2], 0, 75, None),
        ("release", "w-1", [0, 1], 0, 0, 1),  # w-2 never joined: it is removed too
        ("release", "w-0", [0], 0, 0, 0),
        ("release", "w-1", [0, 1], 1, 75, None),  # w-2 may still join
        ("release", "w-7", [], 0, 0, None),  # the node is gone already
        ("release", "w-2", [0, 1], 0, 0, 2),  # the node never joined
        ("release", "w-1", [0, 2], 0, 75, None),  # the node never joined, but a node with a higher number is alive
        ("release", "w-", [], 0, 75, None),
        ("release", "w-1x", [], 0, 75, None),
        ("release", "x-2", [], 0, 75, None),
    ],
)
def test_pods_that_never_joined_neither_pass_the_limit_nor_keep_others(action, what, nodes, ordered, code, replicas, tmp_path):
    calls = tmp_path / "calls"
    (tmp_path / "kubectl").write_text(f'#!/bin/sh\ncase "$*" in *jsonpath*) echo 3;; *) echo kubectl "$@" >> {calls};; esac\n')
    (tmp_path / "kubectl").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RTRAIN_AUTOSCALE_MAX": "6"}
    known = json.dumps({"nodes": [f"w-{number}" for number in nodes], "ordered": ordered}, separators=(",", ":"))
    done = subprocess.run(["sh", OVERLAY / "statefulset", "space", "w", action, what], env=env, input=known + "\n",
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == code, done.stderr
    made = calls.read_text() if calls.exists() else ""
    assert made == (
        "" if replicas is None else f"kubectl -n space scale statefulset/w --current-replicas=3 --replicas={replicas}\n"
    )


def test_a_set_that_is_as_large_as_it_may_be_orders_nothing(tmp_path):
    (tmp_path / "kubectl").write_text("#!/bin/sh\necho 3\n")
    (tmp_path / "kubectl").chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "RTRAIN_AUTOSCALE_MAX": "3"}
    done = subprocess.run(
        ["sh", OVERLAY / "statefulset", "space", "w", "provision", "1"], env=env, capture_output=True, text=True
    )
    assert done.returncode == 1 and "have not joined" in done.stderr


def test_the_examples_ask_for_no_more_rights_than_one_set():
    role = [one for one in yaml.safe_load_all((OVERLAY / "rights.yaml").read_text()) if one["kind"] == "Role"][0]
    assert {(*rule["resources"], *rule["resourceNames"]): rule["verbs"] for rule in role["rules"]} == {
        ("statefulsets", "rtrain-workers"): ["get"],
        ("statefulsets/scale", "rtrain-workers"): ["get", "patch", "update"],
    }

"""The units that `rtrain head install` and `rtrain node install` write, for systemd's own checks, and the exits after which
they start nothing again."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from local_cluster import RTRAIN, LocalCluster, environment, wait_for

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
SYSTEM = "etc/systemd/system"
WORST = 40  # systemd-analyze's measure of exposure, of 100


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


def rtrain(*words, **options):
    done = run(RTRAIN, *words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(unit):
    """{key: [values]} of a unit."""
    found = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def verified(unit, *manager):
    said = run("systemd-analyze", *manager, "verify", "--recursive-errors=no", unit)
    return said.returncode == 0 and not said.stderr.strip(), said.stderr


def test_the_heads_unit_is_one_that_systemd_accepts_and_confines(tmp_path):
    rtrain("head", "install", "--root", tmp_path, "--host", "0.0.0.0", "--name", "lab")
    unit = tmp_path / SYSTEM / "rtrain-head.service"
    fine, said = verified(unit)
    assert fine, said
    exposed = run("systemd-analyze", "security", "--offline=true", f"--threshold={WORST}", "--no-pager", unit)
    assert exposed.returncode == 0, exposed.stdout
    facts = lines(unit)
    assert facts["ExecStart"] == [f"{RTRAIN.resolve()} head start --data /var/lib/rtrain-head --host 0.0.0.0 --name lab"]
    assert facts["Type"] == ["notify"] and float(facts["WatchdogSec"][0]) > 0
    assert facts["Restart"] == ["on-failure"] and facts["RestartSec"] == ["200ms"] and "StartLimitBurst" in facts


def test_the_nodes_unit_leaves_workers_alone(tmp_path):
    rtrain("node", "install", "head:7433", "--root", tmp_path, "--label", "rack=7", "--label", "zone=b", "--resources", "CPU=2")
    unit = tmp_path / SYSTEM / "rtrain-node.service"
    fine, said = verified(unit)
    assert fine, said
    facts = lines(unit)
    assert facts["KillMode"] == ["process"] and facts["Delegate"] == ["yes"] and facts["OOMPolicy"] == ["continue"]
    assert "--label rack=7 --label zone=b" in facts["ExecStart"][0] and "--resources CPU=2" in facts["ExecStart"][0]
    refused = run(RTRAIN, "node", "install", "head:7433", "--root", tmp_path, "--token", "rtn1.x")
    assert refused.returncode == 2 and "--root" in refused.stderr


def test_the_files_that_the_package_ships_are_units_too(tmp_path):
    for name in ("rtrain-head.service", "rtrain-node.service"):
        text = (pathlib.Path(__file__).parents[2] / "configs" / "systemd" / name).read_text()
        unit = tmp_path / name
        unit.write_text(text.replace("/usr/bin/rtrain", str(RTRAIN)))
        fine, said = verified(unit)
        assert fine, said


def test_installing_again_changes_nothing_and_other_flags_do(tmp_path):
    words = ("head", "install", "--root", tmp_path)
    unit = tmp_path / SYSTEM / "rtrain-head.service"
    assert "wrote" in rtrain(*words)
    before = unit.stat().st_ino, unit.stat().st_mtime_ns
    assert "unchanged" in rtrain(*words) and (unit.stat().st_ino, unit.stat().st_mtime_ns) == before
    assert "wrote" in rtrain(*words, "--port", "8000") and "--port 8000" in unit.read_text()
    unit.write_text("[Service]\nExecStart=/usr/local/bin/mine\n")
    refused = run(RTRAIN, *words)
    assert refused.returncode == 7 and "was not written by rtrain" in refused.stderr and "mine" in unit.read_text()


def test_a_dry_run_prints_the_unit_and_writes_nothing(tmp_path):
    assert "ExecStart=" in rtrain("head", "install", "--root", tmp_path, "--dry-run")
    assert list(tmp_path.iterdir()) == []


def test_words_that_mean_something_to_systemd_arrive_as_they_were_typed(tmp_path):
    rtrain("head", "install", "--root", tmp_path, "--name", 'a b%c$d"e\\f')
    unit = tmp_path / SYSTEM / "rtrain-head.service"
    assert lines(unit)["ExecStart"][0].endswith(r'--name "a b%%c$$d\"e\\f"')
    fine, said = verified(unit)
    assert fine, said


def test_an_account_and_directories_of_ones_own(tmp_path):
    refused = run(RTRAIN, "head", "install", "--root", tmp_path, "--data", "/srv/head")
    assert refused.returncode == 2 and "--as" in refused.stderr
    rtrain("head", "install", "--root", tmp_path, "--data", "/srv/head", "--storage-root", "/mnt/runs", "--as", "rt")
    facts = lines(tmp_path / SYSTEM / "rtrain-head.service")
    assert facts["User"] == ["rt"] and "DynamicUser" not in facts and "StateDirectory" not in facts
    assert facts["ReadWritePaths"] == ["/srv/head /mnt/runs"] and facts["Environment"] == ["RTRAIN_CONFIG=/srv/head/config.yaml"]


@as_root
def test_without_root_there_is_a_reason_and_a_users_own_service():
    place = pathlib.Path(tempfile.mkdtemp(dir="/opt"))  # the build's folder, and that of tests, may be closed to others
    place.chmod(0o755)
    program, home = place / "rtrain", place / "home"
    shutil.copy(RTRAIN, program)
    home.mkdir()
    os.chown(home, 65534, 65534)
    me = {"user": 65534, "group": 65534, "cwd": "/", "env": {"HOME": str(home), "PATH": os.environ["PATH"]}}
    try:
        refused = run(program, "head", "install", **me)
        assert refused.returncode == 6 and "needs root" in refused.stderr and "--user" in refused.stderr
        done = run(program, "head", "install", "--user", **me)
        assert done.returncode == 0 and "systemctl --user" in done.stdout, done.stderr
        facts = lines(home / ".config" / "systemd" / "user" / "rtrain-head.service")
    finally:
        shutil.rmtree(place)
    assert facts["WantedBy"] == ["default.target"] and "DynamicUser" not in facts and "ProtectSystem" not in facts
    assert facts["ExecStart"] == [f"{program} head start --data {home}/.local/share/rtrain/head"]


@as_root
def test_a_program_that_the_services_user_cannot_reach_is_refused(tmp_path):
    closed = pathlib.Path("/opt") / f"rtrain-closed-{os.getpid()}"
    closed.mkdir(mode=0o700)
    try:
        shutil.copy(RTRAIN, closed / "rtrain")
        refused = run(closed / "rtrain", "head", "install", "--dry-run")
        assert refused.returncode == 7 and f"{closed} is closed" in refused.stderr, refused.stdout + refused.stderr
    finally:
        shutil.rmtree(closed)


def not_started_again():
    text = (pathlib.Path(__file__).parents[2] / "configs" / "systemd" / "rtrain-node.service").read_text()
    return {int(code) for code in re.search(r"^RestartPreventExitStatus=(.*)$", text, re.M)[1].split()}


def test_exits_that_another_start_would_not_mend_are_in_both_units(tmp_path):
    wrong = tmp_path / "queues.yaml"
    wrong.write_text("queues: 7\n")
    env = environment(tmp_path / "config.yaml")
    start = ("head", "start", "--port", "0", "--data", tmp_path / "head")
    assert run(RTRAIN, *start, "--queues", wrong, env=env).returncode == 4
    assert run(RTRAIN, *start, "--nope", env=env).returncode == 2
    assert run(RTRAIN, "node", "join", "127.0.0.1:1", "--data", tmp_path / "new", env=env).returncode == 3
    (tmp_path / "head").mkdir(exist_ok=True)
    (tmp_path / "head" / "state.db").write_text("no database\n" * 1000)
    assert run(RTRAIN, *start, env=env).returncode == 11
    assert {2, 3, 4, 6, 11} == not_started_again()
    head = (pathlib.Path(__file__).parents[2] / "configs" / "systemd" / "rtrain-head.service").read_text()
    assert "\nRestartPreventExitStatus=2 3 4 6 11\n" in head


@as_root
def test_a_nodes_service_starts_no_program_that_others_may_change():
    place = pathlib.Path(tempfile.mkdtemp(dir="/opt"))
    try:
        shutil.copy(RTRAIN, place / "rtrain")
        for owner, mode in ((65534, 0o755), (0, 0o775)):
            os.chown(place, owner, 0)
            place.chmod(mode)
            refused = run(place / "rtrain", "node", "install", "127.0.0.1:1", "--dry-run")
            assert refused.returncode == 7 and f"may change {place}" in refused.stderr, refused.stderr
        place.chmod(0o755)
        assert "ExecStart=" in run(place / "rtrain", "node", "install", "127.0.0.1:1", "--dry-run").stdout
    finally:
        shutil.rmtree(place)


def test_a_masked_unit_stays_masked(tmp_path):
    unit = tmp_path / SYSTEM / "rtrain-head.service"
    unit.parent.mkdir(parents=True)
    unit.symlink_to("/dev/null")
    refused = run(RTRAIN, "head", "install", "--root", tmp_path)
    assert refused.returncode == 7 and "unmask" in refused.stderr and unit.is_symlink(), refused.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("units") / "cluster", nodes=0)
    yield made
    made.stop()


def test_a_node_goes_on_without_a_token_until_it_has_left(cluster, tmp_path):
    data = tmp_path / "n1"
    words = [cluster.head_address(), "--name", "n1", "--data", data, "--peer-port", "0", "--resources", "CPU=1"]
    token = cluster.json("token", "create", "--role", "node")["token"]
    home = {**cluster.env, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    installed = rtrain("node", "install", *words, "--token", token, "--user", env=home)
    unit = tmp_path / "config" / "systemd" / "user" / "rtrain-node.service"
    assert str(unit) in installed and "rtn1." not in unit.read_text() and (data / "identity").is_dir()
    assert "unchanged" in rtrain("node", "install", *words, "--user", env=home)  # joined before: no token is needed
    started = run(RTRAIN, "node", "join", *words, "--allow-root-workers", "--detach", env=cluster.env)
    assert started.returncode == 0, started.stderr
    other = run(RTRAIN, "node", "join", *words[:1], "--name", "n2", *words[3:], env=cluster.env)
    assert other.returncode == 7, other.stderr
    cluster.rtrain("node", "leave", "n1", "--data", tmp_path / "elsewhere", "--yes")  # told on another machine
    os.kill(int((data / "agent.pid").read_text().split()[0]), 15)
    tried = []

    def agent_is_gone():
        tried.append(run(RTRAIN, "node", "join", *words, env=cluster.env))
        return tried[-1].returncode != 7

    wait_for("the agent that was ended", agent_is_gone, 60)
    again = tried[-1]
    assert again.returncode == 6 and "has left the cluster" in again.stderr, again.stderr

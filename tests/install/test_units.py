"""Tests the units that `rtrain head install` and `rtrain node install` write: systemd's own checks, and the exit codes after
which a unit is not restarted.
"""

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
WORST = 40  # limit of systemd-analyze's measure of exposure, out of 100


PROGRAM = RTRAIN.resolve()  # the program that writes units; `a_place_that_services_reach` names a copy


@pytest.fixture(scope="module", autouse=True)
def a_place_that_services_reach():
    """Copies the program to /opt if the test runs as root, since services may not reach the clone: below /tmp, or in a
    closed home. The folder's name has a space and an umlaut, like that of a clone may have.
    """
    global PROGRAM
    if os.geteuid() != 0:
        yield
        return
    place = pathlib.Path(tempfile.mkdtemp(dir="/opt", prefix="rtrain plätze "))
    place.chmod(0o755)
    PROGRAM = pathlib.Path(shutil.copy(RTRAIN, place / "rtrain"))
    yield
    shutil.rmtree(place)


def unit_word(path):
    """Returns a path as it is written in a unit."""
    return f'"{path}"' if " " in str(path) else str(path)


def run(*words, **options):
    options = {"timeout": 120, **options}
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)


def rtrain(*words, **options):
    done = run(PROGRAM, *words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def lines(unit):
    """Returns {key: [values]} of a unit."""
    settings = {}
    for line in unit.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            settings.setdefault(key, []).append(value)
    return settings


@pytest.fixture
def image(tmp_path):
    """Makes the root of a machine that does not run, with a program at the path where this machine has rtrain."""
    if str(PROGRAM).startswith(("/tmp/", "/var/tmp/")):
        pytest.skip("needs root, or a clone outside of /tmp")
    root = tmp_path / "image"
    program_in(root, PROGRAM)
    return root


def program_in(root, path):
    program = root / str(path).lstrip("/")
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    for directory in (program, *list(program.relative_to(root).parents)[:-1]):
        (root / directory).chmod(0o755)
    return program


def files_below(folder):
    return sorted(str(path) for path in folder.rglob("*"))


def verified(unit, *manager):
    printed = run("systemd-analyze", *manager, "verify", "--recursive-errors=no", unit)
    return printed.returncode == 0 and not printed.stderr.strip(), printed.stderr


def test_the_heads_unit_is_one_that_systemd_accepts_and_confines(image):
    rtrain("head", "install", "--root", image, "--host", "0.0.0.0", "--name", "lab")
    unit = image / SYSTEM / "rtrain-head.service"
    fine, printed = verified(unit)
    assert fine, printed
    exposed = run("systemd-analyze", "security", "--offline=true", f"--threshold={WORST}", "--no-pager", unit)
    assert exposed.returncode == 0, exposed.stdout
    facts = lines(unit)
    assert facts["ExecStart"] == [f"{unit_word(PROGRAM)} head start --data /var/lib/rtrain-head --host 0.0.0.0 --name lab"]
    assert facts["Type"] == ["notify"] and float(facts["WatchdogSec"][0]) > 0
    assert facts["Restart"] == ["on-failure"] and facts["RestartSec"] == ["200ms"] and "StartLimitBurst" in facts


def test_the_nodes_unit_leaves_workers_alone(image):
    rtrain("node", "install", "head:7433", "--root", image, "--label", "rack=7", "--label", "zone=b", "--resources", "CPU=2")
    unit = image / SYSTEM / "rtrain-node.service"
    fine, printed = verified(unit)
    assert fine, printed
    facts = lines(unit)
    assert facts["KillMode"] == ["process"] and facts["Delegate"] == ["yes"] and facts["OOMPolicy"] == ["continue"]
    assert "--label rack=7 --label zone=b" in facts["ExecStart"][0] and "--resources CPU=2" in facts["ExecStart"][0]
    assert facts["EnvironmentFile"] == ["-/etc/default/rtrain-node"]
    refused = run(PROGRAM, "node", "install", "head:7433", "--root", image, "--token", "rtn1.x")
    assert refused.returncode == 2 and "--root" in refused.stderr


def test_the_files_that_the_package_ships_are_units_too(tmp_path):
    for name in ("rtrain-head.service", "rtrain-node.service"):
        text = (pathlib.Path(__file__).parents[2] / "configs" / "systemd" / name).read_text()
        unit = tmp_path / name
        unit.write_text(text.replace("/usr/bin/rtrain", unit_word(PROGRAM)))
        fine, printed = verified(unit)
        assert fine, printed


def test_installing_again_changes_nothing_and_other_flags_do(image):
    words = ("head", "install", "--root", image)
    unit = image / SYSTEM / "rtrain-head.service"
    assert "wrote" in rtrain(*words)
    before = unit.stat().st_ino, unit.stat().st_mtime_ns
    assert "unchanged" in rtrain(*words) and (unit.stat().st_ino, unit.stat().st_mtime_ns) == before
    assert "wrote" in rtrain(*words, "--port", "8000") and "--port 8000" in unit.read_text()
    unit.write_text("[Service]\nExecStart=/usr/local/bin/mine\n")
    refused = run(PROGRAM, *words)
    assert refused.returncode == 7 and "was not written by rtrain" in refused.stderr and "mine" in unit.read_text()


def test_a_dry_run_prints_the_unit_and_writes_nothing(image):
    before = files_below(image)
    assert "ExecStart=" in rtrain("head", "install", "--root", image, "--dry-run")
    assert files_below(image) == before


def test_words_that_mean_something_to_systemd_arrive_as_they_were_typed(image):
    rtrain("head", "install", "--root", image, "--name", 'a b%c$d"e\\f')
    unit = image / SYSTEM / "rtrain-head.service"
    assert lines(unit)["ExecStart"][0].endswith(r'--name "a b%%c$$d\"e\\f"')
    fine, printed = verified(unit)
    assert fine, printed


def test_an_account_and_directories_of_ones_own(image):
    refused = run(PROGRAM, "head", "install", "--root", image, "--data", "/srv/head")
    assert refused.returncode == 2 and "--as" in refused.stderr
    printed = rtrain("head", "install", "--root", image, "--data", "/srv/head", "--storage-root", "/mnt/runs", "--as", "rt")
    assert "the image must have /srv/head" in printed
    facts = lines(image / SYSTEM / "rtrain-head.service")
    assert facts["User"] == ["rt"] and "DynamicUser" not in facts and "StateDirectory" not in facts
    assert facts["ReadWritePaths"] == facts["RequiresMountsFor"] == ["/srv/head /mnt/runs"]
    assert facts["Environment"] == ["RTRAIN_CONFIG=/srv/head/config.yaml"]
    assert verified(image / SYSTEM / "rtrain-head.service") == (True, "")


@pytest.mark.parametrize(
    "flags, word",
    [
        (("--port", "99999"), "65535"),
        (("--port", "443"), "443"),
        (("--host", "head.lab"), "IP address"),
        (("--as", "rt\nExecStartPre=/bin/id"), "name of an account"),
        (("--as", ""), "name of an account"),
        (("--as", "rt", "--data", "/srv/a\nb"), "control character"),
    ],
)
def test_flags_that_the_service_could_not_start_with_are_refused(image, flags, word):
    before = files_below(image)
    refused = run(PROGRAM, "head", "install", "--root", image, *flags)
    assert refused.returncode == 2 and word in refused.stderr, refused.stderr
    assert files_below(image) == before


@pytest.mark.parametrize("flag, path", [("--data", "/tmp/head"), ("--storage-root", "/var/tmp/runs"), ("--data", "/tmp")])
def test_a_directory_below_tmp_is_refused_since_the_unit_has_its_own(image, flag, path):
    refused = run(PROGRAM, "head", "install", "--root", image, "--as", "rt", flag, path)
    folder = "/var/tmp" if path.startswith("/var") else "/tmp"
    assert refused.returncode == 7, refused.stderr
    assert f"has a {folder} of its own (PrivateTmp), so it would not find {path}" in refused.stderr


def test_a_program_below_tmp_is_refused_since_the_unit_has_its_own():
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rtrain plätze ") as place:
        program = pathlib.Path(shutil.copy(RTRAIN, pathlib.Path(place) / "rtrain"))
        pathlib.Path(place).chmod(0o755)
        root = pathlib.Path(place) / "image"
        program_in(root, program)
        refused = run(program, "head", "install", "--root", root)
        assert refused.returncode == 7 and f"PrivateTmp), so it would not find {program}" in refused.stderr, refused.stderr


def test_an_account_is_nothing_to_a_users_own_service(tmp_path):
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    refused = run(PROGRAM, "head", "install", "--user", "--as", "rt", env=env)
    assert refused.returncode == 2 and "--user" in refused.stderr


def test_queues_that_the_services_user_cannot_read_are_refused(image):
    queues = image / "etc" / "queues.yaml"
    queues.parent.mkdir(exist_ok=True)
    queues.write_text((pathlib.Path(__file__).parents[2] / "configs" / "queues.yaml").read_text())
    words = ("head", "install", "--root", image, "--queues", "/etc/queues.yaml")
    queues.chmod(0o600)
    refused = run(PROGRAM, *words)
    assert refused.returncode == 7 and f"{queues} is closed" in refused.stderr, refused.stderr
    queues.chmod(0o644)
    assert "--queues /etc/queues.yaml" in rtrain(*words, "--dry-run")
    queues.write_text("queues: 7\n")
    assert run(PROGRAM, *words).returncode == 4


def test_an_image_gets_the_path_of_its_own_program_and_no_name_of_this_machine(tmp_path):
    root = tmp_path / "image"
    root.mkdir()
    words = ("node", "install", "head:7433", "--root", root)
    refused = run(PROGRAM, *words)
    assert refused.returncode == 3 and "no rtrain below" in refused.stderr, refused.stderr
    program = program_in(root, "/usr/bin/rtrain")
    rtrain(*words)
    facts = lines(root / SYSTEM / "rtrain-node.service")
    assert facts["ExecStart"] == ["/usr/bin/rtrain node join head:7433"]
    rtrain(*words, "--name", "n1", "--data", "/srv/node")
    facts = lines(root / SYSTEM / "rtrain-node.service")
    assert facts["ExecStart"] == ["/usr/bin/rtrain node join head:7433 --name n1 --data /srv/node"]
    program.parent.chmod(0o775)
    refused = run(PROGRAM, *words)
    assert refused.returncode == 7 and f"may change {program.parent}" in refused.stderr, refused.stderr


def test_links_in_an_image_lead_nowhere_out_of_it(image, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (image / "etc").symlink_to(outside)
    refused = run(PROGRAM, "head", "install", "--root", image)  # the link's target does not exist in the image
    assert refused.returncode == 6 and "is a link" in refused.stderr, refused.stderr
    assert list(outside.iterdir()) == []


def test_a_link_to_a_directory_of_the_image_itself_is_followed(image, tmp_path):
    place = str(tmp_path / "etc")  # exists in the image only
    (image / place.lstrip("/")).mkdir(parents=True)
    (image / "etc").symlink_to(place)
    rtrain("head", "install", "--root", image)
    assert (image / place.lstrip("/") / "systemd" / "system" / "rtrain-head.service").exists()
    assert not pathlib.Path(place).exists()


def test_a_python_beside_the_program_comes_first_on_the_services_path(tmp_path):
    root = tmp_path / "image"
    program = program_in(root, PROGRAM)
    (program.parent / "python3").symlink_to("/usr/bin/python3")
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "python3").write_text("#!/bin/sh\n")
    (root / "etc" / "default").mkdir(parents=True)
    (root / "etc" / "default" / "rtrain-node").write_text("# RTRAIN_HEAD=h\nRTRAIN_NODE_FLAGS=--allow-setuid\nNCCL_DEBUG=INFO\n")
    done = run(PROGRAM, "node", "install", "head:7433", "--root", root)
    assert done.returncode == 0 and "sets RTRAIN_NODE_FLAGS" in done.stderr and "sets RTRAIN_HEAD" not in done.stderr
    facts = lines(root / SYSTEM / "rtrain-node.service")
    (path,) = facts["Environment"]
    assert path.strip('"').startswith(f"PATH={PROGRAM.parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin")
    assert facts["EnvironmentFile"] == ["-/etc/default/rtrain-node"]
    assert verified(root / SYSTEM / "rtrain-node.service") == (True, "")


@as_root
def test_a_program_whose_path_means_something_to_systemd_is_found():
    place = pathlib.Path(tempfile.mkdtemp(dir="/opt", prefix="rt $HOME%h"))
    place.chmod(0o755)
    try:
        shutil.copy(RTRAIN, place / "rtrain")
        unit = place / "rtrain-node.service"
        unit.write_text(run(place / "rtrain", "node", "install", "127.0.0.1:1", "--dry-run").stdout)
        assert verified(unit) == (True, "")
    finally:
        shutil.rmtree(place)


@as_root
def test_directories_of_the_head_are_made_for_its_account_and_no_link_is_followed():
    place = pathlib.Path(tempfile.mkdtemp(dir="/opt"))
    place.chmod(0o755)
    shutil.copy(RTRAIN, place / "rtrain")

    def install(*words):  # mounts a separate directory of units, which other processes do not see
        script = 'mount -t tmpfs none /etc/systemd/system && "$@" && cat /etc/systemd/system/rtrain-head.service'
        command = (place / "rtrain", "head", "install", *words)
        return run("unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", *command)

    try:
        done = install("--as", "nobody", "--data", place / "a" / "head", "--storage-root", f"{place}/runs/")
        assert done.returncode == 0, done.stderr
        assert f"ReadWritePaths={place}/a/head {place}/runs\n" in done.stdout
        for name, owner in (("a", "root"), ("a/head", "nobody"), ("runs", "nobody")):
            assert (place / name).owner() == owner and (place / name).stat().st_mode & 0o022 == 0
        (place / "roots").mkdir()
        (place / "link").symlink_to(place / "roots")
        refused = install("--as", "nobody", "--data", place / "link" / "new")
        assert refused.returncode == 6 and "link" in refused.stderr and not list((place / "roots").iterdir())
        refused = install("--as", "nobody", "--data", place / "roots")
        assert refused.returncode == 7 and f"chown nobody {place}/roots" in refused.stderr, refused.stderr
        assert install("--as", "rtrain-no-such").returncode == 3
        refused = install("--storage-root", place / "none")
        assert refused.returncode == 3 and "--as" in refused.stderr, refused.stderr
        place.chmod(0o775)
        refused = install("--as", "root")
        assert refused.returncode == 7 and f"may change {place}" in refused.stderr, refused.stderr
    finally:
        shutil.rmtree(place)


@as_root
def test_roots_own_hands_write_no_unit_of_another_account():
    home = pathlib.Path(tempfile.mkdtemp(dir="/opt"))
    try:
        os.chown(home, 65534, 65534)
        refused = run(PROGRAM, "head", "install", "--user", env={"HOME": str(home), "PATH": os.environ["PATH"]})
        assert refused.returncode == 6 and "another account" in refused.stderr and list(home.iterdir()) == []
    finally:
        shutil.rmtree(home)


@as_root
def test_without_root_there_is_a_reason_and_a_users_own_service():
    place = pathlib.Path(tempfile.mkdtemp(dir="/opt"))  # the folders of the build and of tests may be closed to other users
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


@pytest.mark.parametrize("name", ["rtrain-head.service", "rtrain-node.service"])
def test_an_exit_that_a_restart_may_mend_waits_so_long_that_the_start_limit_is_not_reached(name, tmp_path):
    facts = lines(pathlib.Path(__file__).parents[2] / "configs" / "systemd" / name)
    (after,) = facts["ExecStopPost"]
    shell, _, script = after.removeprefix("-").partition(" -c ")
    (tmp_path / "sleep").write_text('#!/bin/sh\necho "$1"\n')
    (tmp_path / "sleep").chmod(0o755)

    def wait(how, status):
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "EXIT_CODE": how, "EXIT_STATUS": status}
        return float(run(shell, "-c", script.strip("'").replace("$$", "$"), env=env).stdout or 0)

    tries, within = int(facts["StartLimitBurst"][0]), float(facts["StartLimitIntervalSec"][0])
    for code in ("5", "7", "8", "10"):
        assert wait("exited", code) * tries > within
    for how, status in (("exited", "0"), ("exited", "11"), ("killed", "SEGV"), ("killed", "TERM"), ("dumped", "ABRT")):
        assert wait(how, status) == 0  # these are final, or cause a bounded number of immediate restarts


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


def test_a_masked_unit_stays_masked(image):
    unit = image / SYSTEM / "rtrain-head.service"
    unit.parent.mkdir(parents=True)
    unit.symlink_to("/dev/null")
    refused = run(PROGRAM, "head", "install", "--root", image)
    assert refused.returncode == 7 and "unmask" in refused.stderr and unit.is_symlink(), refused.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("units") / "cluster", nodes=0)
    yield made
    made.stop()


def test_a_token_is_not_spent_for_a_unit_that_cannot_be_written(cluster, tmp_path):
    unit = tmp_path / "config" / "systemd" / "user" / "rtrain-node.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nExecStart=/usr/local/bin/mine\n")
    env = {**cluster.env, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    token = cluster.json("token", "create", "--role", "node")["token"]
    words = [cluster.head_address(), "--name", "n9", "--data", tmp_path / "n9", "--resources", "CPU=1", "--token", token]
    assert run(PROGRAM, "node", "install", *words, "--user", env=env).returncode == 7
    unit.unlink()
    assert "wrote" in rtrain("node", "install", *words, "--user", env=env)
    assert files_below(unit.parent) == [str(unit)]


def test_a_node_goes_on_without_a_token_until_it_has_left(cluster, tmp_path):
    data = tmp_path / "n1"
    words = [cluster.head_address(), "--name", "n1", "--data", data, "--peer-port", "0", "--resources", "CPU=1"]
    token = cluster.json("token", "create", "--role", "node")["token"]
    home = {**cluster.env, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    installed = rtrain("node", "install", *words, "--token", token, "--user", env=home)
    unit = tmp_path / "config" / "systemd" / "user" / "rtrain-node.service"
    assert str(unit) in installed and "rtn1." not in unit.read_text() and (data / "identity").is_dir()
    assert "unchanged" in rtrain("node", "install", *words, "--user", env=home)  # the node joined before, so it needs no token
    started = run(RTRAIN, "node", "join", *words, "--allow-root-workers", "--detach", env=cluster.env)
    assert started.returncode == 0, started.stderr
    spare = cluster.json("token", "create", "--role", "node")["token"]
    for token in ([], ["--token", spare]):  # while its agent runs
        again = run(PROGRAM, "node", "install", *words, *token, "--user", env=home)
        assert again.returncode == 0 and "unchanged" in again.stdout and "restart" not in again.stdout, again.stderr
    changed = rtrain("node", "install", *words, "--label", "rack=7", "--user", env=home)
    assert "wrote" in changed and "systemctl --user restart rtrain-node.service" in changed
    agent_of_another = run(PROGRAM, "node", "install", *words[:1], "--name", "n2", *words[3:], "--user", env=home)
    assert agent_of_another.returncode == 7, agent_of_another.stderr
    assert "--label rack=7" in unit.read_text()  # the unit is unchanged
    other = run(RTRAIN, "node", "join", *words[:1], "--name", "n2", *words[3:], env=cluster.env)
    assert other.returncode == 7, other.stderr
    cluster.rtrain("node", "leave", "n1", "--data", tmp_path / "elsewhere", "--yes")  # simulates a command on another machine
    os.kill(int((data / "agent.pid").read_text().split()[0]), 15)
    tried = []

    def agent_is_gone():
        tried.append(run(RTRAIN, "node", "join", *words, env=cluster.env))
        return tried[-1].returncode != 7

    wait_for("the agent that was ended", agent_is_gone, 60)
    again = tried[-1]
    assert again.returncode == 6 and "has left the cluster" in again.stderr, again.stderr

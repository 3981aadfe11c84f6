"""Tests backups of a head: the restored state, the rights to make and read a backup, and refused restores."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import pytest
from jobs_on_disk import write_job
from local_cluster import RTRAIN, LocalCluster, environment, free_port, program_in, wait_for
from small_disk import small_disk


@pytest.fixture
def home(tmp_path):
    return {**environment(tmp_path / "config.yaml"), "XDG_DATA_HOME": str(tmp_path / "data")}


def run_in(env, *arguments, **more):
    return subprocess.run([RTRAIN, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=60, **more)


def test_a_head_with_records_makes_no_new_authority_unless_it_is_told_to(home, tmp_path):
    data = tmp_path / "head"
    start = ("head", "start", "--detach", "--port", free_port(), "--data", data)
    try:
        assert run_in(home, *start).returncode == 0
        assert run_in(home, "head", "stop", "--data", data).returncode == 0
        for name in ("ca.crt", "ca.key"):
            (data / name).unlink()
        refused = run_in(home, *start)
        assert refused.returncode == 3 and "not its authority" in refused.stderr, refused.stdout + refused.stderr
        assert "rtrain head restore" in refused.stderr and not (data / "ca.crt").exists()
        begun = run_in(home, *start, "--new-ca")
        assert begun.returncode == 0, begun.stderr
        assert (data / "ca.key").stat().st_mode & 0o777 == 0o600
        assert run_in(home, "head", "stop", "--data", data).returncode == 0
        assert run_in(home, *start).returncode == 0
    finally:
        run_in(home, "head", "stop", "--data", data)


STEPS = 'i=0; while [ $i -lt 600 ]; do i=$((i+1)); echo "step $i"; sleep 0.1; done'


def backed_up(cluster, key, to, *flags):
    return cluster.run("head", "backup", to, "--data", cluster.folder / "head", "--key-file", key, *flags)


def restored(cluster, key, backup, to, *flags):
    return cluster.run("head", "restore", backup, "--data", to, "--key-file", key, *flags)


def made_key(folder, text="a key of thirty two random letters"):
    path = folder / "backup.key"
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


def tree(folder):
    return {path.relative_to(folder): path.stat().st_mode & 0o777 for path in folder.rglob("*")}


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "c", nodes=0)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def key(tmp_path):
    return made_key(tmp_path)


def steps_of(cluster, run):
    lines = re.findall(r"step (\d+)", cluster.rtrain("logs", run))
    return int(lines[-1]) if lines else 0


def test_a_killed_head_comes_back_elsewhere_and_training_is_undisturbed(cluster, key, tmp_path):
    elsewhere = free_port()
    token = cluster.json("token", "create", "--role", "node")["token"]
    cluster.start(
        "node-1", "node", "join", cluster.head_address(), "--or-head", f"127.0.0.1:{elsewhere}", "--token", token, "--name",
        "node-1", "--data", cluster.folder / "node-1", "--peer-port", 0, "--resources", "CPU=1", "--allow-root-workers",
    )  # fmt: skip
    wait_for("the node", lambda: cluster.ready_nodes() == 1)
    user = cluster.json("token", "create", "--role", "user", "--user", "ana")["token"]
    cluster.rtrain("submit", write_job(tmp_path, "training", ["sh", "-c", STEPS]))
    cluster.wait_state("training", "RUNNING")
    code = tmp_path / "code"
    code.mkdir()
    (code / "hello.py").write_text("import os; print('the code came back', os.environ['SECRET'])\n")
    waiting = write_job(tmp_path, "waiting", ["python", "hello.py"], working_dir=str(code), secrets=["SECRET"])
    submitted = run_in({**cluster.env, "SECRET": "s3cret"}, "submit", waiting)
    assert submitted.returncode == 0, submitted.stderr
    wait_for("its log", lambda: steps_of(cluster, "training") > 3)
    before = cluster.json("describe", "training")
    made = backed_up(cluster, key, tmp_path / "head.backup")
    assert made.returncode == 0, made.stderr
    assert (tmp_path / "head.backup").stat().st_mode & 0o777 == 0o600
    wait_for("progress after the backup", lambda: steps_of(cluster, "training") > 15)
    cluster.kill("head")
    shutil.rmtree(cluster.folder / "head")
    new = cluster.folder / "restored"
    done = restored(cluster, key, tmp_path / "head.backup", new)
    assert done.returncode == 0, done.stderr
    assert f"--port {cluster.port}" in done.stdout and "context move" in done.stdout, done.stdout
    assert {mode for path, mode in tree(new).items() if (new / path).is_file()} == {0o600}
    cluster.start("head", "head", "start", "--port", elsewhere, "--data", new)
    cluster.port = elsewhere
    begun = time.monotonic()
    wait_for("the head", cluster.healthy, seconds=20)  # the admin's context has the new port
    served = time.monotonic()
    wait_for("the node", lambda: cluster.ready_nodes() == 1, seconds=20)
    assert time.monotonic() - served < 10, f"{served - begun} s to serve"
    asked = {**cluster.env, "RTRAIN_ADDRESS": f"127.0.0.1:{elsewhere}", "RTRAIN_TOKEN": user}
    assert run_in(asked, "runs").returncode == 0
    last = steps_of(cluster, "training")
    wait_for("more steps", lambda: steps_of(cluster, "training") > last + 5, seconds=30)
    after = cluster.json("describe", "training")
    assert after["state"] == "RUNNING" and after["attempts"] == before["attempts"] == 1, after
    seen = [int(step) for step in re.findall(r"step (\d+)", cluster.rtrain("logs", "training"))]
    assert seen == list(range(1, len(seen) + 1))  # no line is lost or repeated
    cluster.rtrain("stop", "training", "--now", "--yes")
    cluster.wait_state("training", "STOPPED")
    cluster.wait_state("waiting", "SUCCEEDED")
    assert "the code came back s3cret" in cluster.rtrain("logs", "waiting")
    assert cluster.run("head", "verify", "--data", new).returncode == 0


def test_a_restore_refuses_what_is_not_whole_and_what_is_not_empty(cluster, key, tmp_path):
    backup, to = tmp_path / "b", tmp_path / "to"
    assert backed_up(cluster, key, backup).returncode == 0
    again = backed_up(cluster, key, backup)
    assert again.returncode == 7 and "--yes" in again.stderr
    assert backed_up(cluster, key, backup, "--yes").returncode == 0
    to.mkdir()
    (to / "mine").touch()
    full = restored(cluster, key, backup, to)
    assert full.returncode == 7 and "not an empty directory" in full.stderr
    assert [path.name for path in to.iterdir()] == ["mine"]
    (to / "mine").unlink()
    other = made_key(cluster.folder, "quite another key of many letters")
    wrong = restored(cluster, other, backup, to)
    assert wrong.returncode == 6 and "does not open" in wrong.stderr, wrong.stderr
    whole = backup.read_bytes()
    for text in (whole[:-1], whole[:-40], whole[: len(whole) // 2], whole + b"x", whole[:-60] + b"y" + whole[-59:]):
        backup.write_bytes(text)
        damaged = restored(cluster, key, backup, to)
        assert damaged.returncode == 11 and "use another backup" in damaged.stderr, damaged.stderr
        assert not list(to.iterdir()) and not list(tmp_path.glob(".to.*"))
    backup.write_bytes(b"no backup at all, and long enough to be read as one, is it not?")
    assert restored(cluster, key, backup, to).returncode == 4
    backup.write_bytes(whole)
    looked = restored(cluster, key, backup, to, "--dry-run")
    assert looked.returncode == 0 and "sound" in looked.stdout and not list(to.iterdir())
    assert restored(cluster, key, backup, to).returncode == 0
    assert (to / "ca.key").stat().st_mode & 0o777 == 0o600 and to.stat().st_mode & 0o777 == 0o700
    old = cluster.run("head", "restore-backup", backup, "--data", tmp_path / "third")
    assert old.returncode == 2 and "rtrain head restore" in old.stderr


def test_a_backup_needs_a_key_that_only_its_owner_has(cluster, key, tmp_path):
    data, backup = cluster.folder / "head", tmp_path / "b"
    none = cluster.run("head", "backup", backup, "--data", data)
    assert none.returncode == 2 and "--key-file" in none.stderr and "--state-only" in none.stderr
    short = made_key(cluster.folder, "short")
    assert backed_up(cluster, short, backup).returncode == 2
    key.chmod(0o640)
    shared = backed_up(cluster, key, backup)
    assert shared.returncode == 2 and "chmod 600" in shared.stderr
    key.chmod(0o600)
    by_passphrase = run_in(
        {**cluster.env, "RTRAIN_BACKUP_PASSPHRASE": "a long passphrase"}, "head", "backup", backup, "--data", data
    )
    assert by_passphrase.returncode == 0, by_passphrase.stderr
    sealed = backup.read_bytes()
    for secret in ("ca.key", "PRIVATE KEY", "state.db", "cluster_id"):
        assert secret.encode() not in sealed
    assert not list(data.glob("tmp/*")) and not list(tmp_path.glob("*.partial*"))


def test_only_an_admin_may_make_a_backup(cluster, key, tmp_path):
    viewer = cluster.json("token", "create", "--role", "viewer", "--user", "ana")["token"]
    user = cluster.json("token", "create", "--role", "user", "--user", "ben")["token"]
    arguments = ("head", "backup", tmp_path / "b", "--address", cluster.head_address(), "--key-file", key)
    for token in (viewer, user):
        refused = run_in({**cluster.env, "RTRAIN_TOKEN": token}, *arguments)
        assert refused.returncode == 6, refused.stderr
    assert not (tmp_path / "b").exists()
    assert cluster.run(*arguments).returncode == 0
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o600
    assert restored(cluster, key, tmp_path / "b", tmp_path / "to").returncode == 0
    assert "a key of thirty two" not in cluster.rtrain("audit")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another account")
def test_another_account_of_the_machine_reads_nothing(cluster, key, tmp_path):
    place = pathlib.Path(tempfile.mkdtemp())
    try:
        place.chmod(0o777)
        theirs = made_key(place)
        os.chown(theirs, 65534, 65534)
        program = program_in(place / "bin")
        refused = subprocess.run(
            ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", program, "head", "backup", place / "b", "--data",
             cluster.folder / "head", "--key-file", theirs],
            env={"PATH": os.environ["PATH"], "HOME": str(place)}, capture_output=True, text=True,
        )  # fmt: skip
        assert refused.returncode != 0 and not (place / "b").exists(), refused.stdout
    finally:
        shutil.rmtree(place)


def test_links_in_the_heads_directory_and_at_the_target_are_not_followed(cluster, key, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("a file of somebody else")
    (cluster.folder / "head" / "logs" / "link").symlink_to(outside)
    (cluster.folder / "head" / "secrets" / "folder").symlink_to(tmp_path)
    backup = tmp_path / "b"
    made = backed_up(cluster, key, backup)
    assert made.returncode == 0 and "not in it: logs/link, which is no plain file" in made.stdout, made.stdout
    assert restored(cluster, key, backup, tmp_path / "to").returncode == 0
    assert not [path for path in (tmp_path / "to").rglob("*") if path.is_symlink() or path.name in ("link", "folder")]
    (tmp_path / "pointer").symlink_to(outside)
    replaced = backed_up(cluster, key, tmp_path / "pointer", "--yes")
    assert replaced.returncode == 7 and outside.read_text() == "a file of somebody else", replaced.stderr
    replaced = backed_up(cluster, key, outside, "--yes")
    assert replaced.returncode == 7 and outside.read_text() == "a file of somebody else", replaced.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small tmpfs needs root")
def test_a_disk_that_fills_up_leaves_no_half_backup_and_no_half_head(cluster, key, tmp_path):
    noise = cluster.folder / "head" / "storage"
    noise.mkdir(exist_ok=True)
    (noise / "noise").write_bytes(os.urandom(6 << 20))
    with small_disk(tmp_path / "small", "4m") as small:
        full = backed_up(cluster, key, small / "b", "--with-files")
        assert full.returncode == 10 and "make room" in full.stderr, full.stderr
        assert list(small.iterdir()) == []
        again = backed_up(cluster, key, small / "folder", "--with-files", "--incremental")
        assert again.returncode == 10 and not list((small / "folder").glob("*.rtbackup*")), again.stderr
        shutil.rmtree(small / "folder")
        assert backed_up(cluster, key, tmp_path / "b", "--with-files").returncode == 0
        refused = restored(cluster, key, tmp_path / "b", small / "head")
        assert refused.returncode == 10 and list(small.iterdir()) == [], refused.stderr
    assert restored(cluster, key, tmp_path / "b", tmp_path / "head").returncode == 0
    assert (tmp_path / "head" / "storage" / "noise").read_bytes() == (noise / "noise").read_bytes()


def test_an_incremental_backup_stores_what_is_new_and_forgets_what_nobody_needs(cluster, key, tmp_path):
    folder, noise = tmp_path / "backups", cluster.folder / "head" / "storage" / "noise"
    noise.parent.mkdir(exist_ok=True)
    noise.write_bytes(os.urandom(5 << 20))
    flags = ("--incremental", "--with-files")
    pieces = lambda: {path.name for path in folder.glob("pieces/*/*")}  # noqa: E731
    assert backed_up(cluster, key, folder, *flags).returncode == 0
    first = pieces()
    with noise.open("ab") as file:
        file.write(os.urandom(100))
    assert backed_up(cluster, key, folder, *flags).returncode == 0
    new = pieces() - first
    assert len(first) >= 6 and 1 <= len(new) <= 3, (len(first), len(new))
    assert len(list(folder.glob("*.rtbackup"))) == 2
    wrong = backed_up(cluster, made_key(cluster.folder, "quite another key of many letters"), folder, *flags)
    assert wrong.returncode == 6 and len(list(folder.glob("*.rtbackup"))) == 2
    noise.write_bytes(b"short")
    kept = backed_up(cluster, key, folder, *flags, "--keep", "1")
    assert kept.returncode == 0, kept.stderr
    assert len(list(folder.glob("*.rtbackup"))) == 1 and len(pieces()) < len(first)
    assert restored(cluster, key, folder, tmp_path / "to").returncode == 0
    assert (tmp_path / "to" / "storage" / "noise").read_bytes() == b"short"
    assert (tmp_path / "to" / "ca.key").read_bytes() == (cluster.folder / "head" / "ca.key").read_bytes()
    (piece,) = list(folder.glob("pieces/*/*"))[:1]
    piece.write_bytes(piece.read_bytes()[:-1] + b"x")
    damaged = restored(cluster, key, folder, tmp_path / "other")
    assert damaged.returncode == 11 and not (tmp_path / "other").exists(), damaged.stderr


def test_a_killed_backup_leaves_files_that_the_next_one_removes(cluster, key, tmp_path):
    folder, data = tmp_path / "backups", cluster.folder / "head"
    (data / "storage").mkdir(exist_ok=True)
    (data / "storage" / "noise").write_bytes(os.urandom(60 << 20))
    arguments = [RTRAIN, "head", "backup", folder, "--data", data, "--key-file", key, "--incremental", "--with-files"]
    leftovers = lambda: [*folder.glob("*.partial-*"), *data.glob("tmp/backup-*")]  # noqa: E731
    killed = subprocess.Popen([str(word) for word in arguments], env=cluster.env, stdout=subprocess.DEVNULL)
    wait_for("pieces", lambda: len(list(folder.glob("pieces/*/*"))) > 5)
    killed.kill()
    killed.wait()
    assert len(leftovers()) == 2, leftovers()
    done = backed_up(cluster, key, folder, "--incremental", "--with-files")
    assert done.returncode == 0, done.stderr
    assert leftovers() == [] and list(folder.glob("pieces/*/*.new")) == []


def test_a_backup_takes_the_storage_root_of_the_heads_last_start(home, key, tmp_path):
    data, root = tmp_path / "head", tmp_path / "files"
    try:
        started = run_in(
            home, "head", "start", "--detach", "--port", free_port(), "--data", data, "--storage-root", root, "--name", "lab"
        )  # fmt: skip
        assert started.returncode == 0, started.stderr
    finally:
        run_in(home, "head", "stop", "--data", data)
    (root / "run-1").mkdir()
    (root / "run-1" / "checkpoint").write_text("weights")
    flags = ("--data", data, "--key-file", key, "--with-files")
    assert run_in(home, "head", "backup", tmp_path / "b", *flags).returncode == 0
    done = run_in(home, "head", "restore", tmp_path / "b", "--data", tmp_path / "to", "--key-file", key)
    assert done.returncode == 0 and 'cluster "lab"' in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "to" / "storage" / "run-1" / "checkpoint").read_text() == "weights"


def test_a_schedule_is_two_units_that_run_the_same_backup(cluster, key, tmp_path):
    data = cluster.folder / "head"
    arguments = ("head", "backup", tmp_path / "backups", "--data", data, "--key-file", key, "--incremental", "--keep", "14")
    units = cluster.rtrain(*arguments, "--schedule", "*-*-* 03:15", "--dry-run")
    assert f"head backup {tmp_path}/backups --incremental --data {data} --key-file {key} --keep 14" in units, units
    assert "OnCalendar=*-*-* 03:15" in units and f"ReadWritePaths={tmp_path}/backups {data}" in units
    assert not (tmp_path / "backups").exists()
    odd = cluster.run(*arguments, "--schedule", "daily\nExecStart=/bin/true", "--dry-run")
    assert odd.returncode == 2 and "calendar" in odd.stderr
    assert cluster.run("head", "backup", tmp_path / "b", "--data", data, "--schedule", "daily").returncode == 2
    image = tmp_path / "image"
    (image / "usr" / "bin").mkdir(parents=True)
    shutil.copy(RTRAIN, image / "usr" / "bin" / "rtrain")
    written = cluster.run(*arguments, "--schedule", "daily", "--root", image)
    assert written.returncode == 0, written.stderr
    written_units = sorted(path.name for path in image.rglob("rtrain-backup.*"))
    assert written_units == ["rtrain-backup.service", "rtrain-backup.timer"]


def test_a_context_is_moved_to_another_address(cluster):
    name = next(item["name"] for item in cluster.json("context", "list")["items"])
    cluster.rtrain("context", "move", name, "127.0.0.1:1")
    assert cluster.run("status").returncode == 5
    cluster.rtrain("context", "move", name, cluster.head_address())
    assert cluster.run("status").returncode == 0
    assert cluster.run("context", "move", "absent", "127.0.0.1:1").returncode == 3

"""Tests that daemons with root's rights do not touch root's files through what a job made: mounts that only the job sees,
and directories where several users write.
"""

import os
import pathlib
import shutil

import pytest
from jobs_on_disk import write_job
from local_cluster import wait_for
from mapped_users import PERSON, WORKER, MappedUsers, submit_as
from test_separation import Person

OTHER = "daemon"
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes users")

RESTORED_WITH_A_RUN = (
    WORKER.partition('hear("welcome")')[0]
    + """
checkpoint = hear("welcome")["checkpoint"]
if checkpoint:
    place, victim, note = checkpoint["path"], sys.argv[1], sys.argv[2]
    open(note + "/path", "w").write(place)
    mount = f"mount --rbind {victim} {place}/team/code && echo $$ > {note}/pid; sleep 600"
    os.execvp("unshare", ["unshare", "-Urm", "sh", "-c", mount])
send(type="stage")
stage = hear("staged")["path"]
os.makedirs(stage + "/team/code")
open(stage + "/team/code/x", "w").write("x")
header = dict(name="team", cluster_id="c", run_id="c-1", user="PERSON", job={}, code_sha256="", wall_ms=1)
json.dump(header, open(stage + "/team/run.json", "w"))
report(1, stage, "async")
hear("committed")
sys.exit(1)
""".replace("PERSON", PERSON)
)


@pytest.fixture
def cluster(folder):  # noqa: F811
    cluster = MappedUsers(folder / "cluster", nodes=1, resources="CPU=4")
    yield cluster
    cluster.stop()


@pytest.fixture
def note(folder):  # noqa: F811
    note = folder / "note"
    note.mkdir()
    note.chmod(0o777)
    return note


def roots_own(folder, name):  # noqa: F811
    """Makes a directory that only root may enter, with a file."""
    victim = folder / "victim"
    victim.mkdir(mode=0o700)
    (victim / name).write_text("root's")
    (victim / name).chmod(0o600)
    return victim


def text_from_job(path):
    return wait_for(f"{path.name} from the job", lambda: path.exists() and path.read_text().strip(), seconds=60)


@pytest.mark.parametrize("where", ["code", "logs"])
def test_the_head_reads_and_removes_nothing_that_a_job_has_mounted(cluster, folder, note, where):  # noqa: F811
    victim, person = roots_own(folder, "file"), Person(cluster, PERSON)
    inside = note / "x" / "team" / where
    mounts = f"mkdir -p {note}/x; echo $$ > {note}/pid; while [ ! -e {note}/go ]; do sleep 0.1; done; mkdir -p {inside}"
    mounts += f"; mount --rbind {victim} {inside} && echo yes > {note}/mounted || echo no > {note}/mounted; sleep 600"
    assert person.submit("holder", f"exec unshare -Urm sh -c '{mounts}'")[0] == 201
    storage = f"/proc/{text_from_job(note / 'pid')}/root{note}/x"
    status, run = person.submit("team", "true", job={"storage_path": storage})
    assert status == 201, run
    (note / "go").touch()
    if text_from_job(note / "mounted") != "yes":
        pytest.skip("this kernel lets no user mount")
    cluster.wait_state("team", "FAILED", "SUCCEEDED")
    reason = cluster.json("describe", "team")["reason"]
    status, text = person.call("GET", f"/v1/runs/team/files/{where}/file")
    assert status == 404, text
    person.call("DELETE", "/v1/runs/team?files=true")
    assert (victim / "file").read_text() == "root's"
    assert "one of /proc's" in reason


def test_the_agent_hands_over_nothing_that_a_job_has_mounted(cluster, folder, note):  # noqa: F811
    victim, person = roots_own(folder, "shadow"), Person(cluster, PERSON)
    script = folder / "worker.py"
    script.write_text(RESTORED_WITH_A_RUN)
    script.chmod(0o644)
    twice = {"failure": {"max_failures": 1, "backoff": "100ms..1s"}}
    assert person.submit("seed", f"exec python3 {script} {victim} {note}", job=twice)[0] == 201
    path = text_from_job(note / "path")
    try:
        pid = text_from_job(note / "pid")
    except AssertionError:
        pytest.skip("this kernel lets no user mount")
    assert person.submit("team", "true", job={"storage_path": f"/proc/{pid}/root{path}"})[0] == 201
    cluster.wait_state("team", "FAILED", "SUCCEEDED")
    assert [path.owner() for path in (victim, victim / "shadow")] == ["root", "root"]


@pytest.fixture
def teams(folder):  # noqa: F811
    """Makes a directory of OTHER's where everybody may write, with a file that only OTHER may read or remove."""
    team = folder / "shared" / "team"
    (team / "theirs").mkdir(parents=True)
    (team / "theirs" / "thesis").write_text("theirs")
    for path, mode in ((team, 0o777), (team / "theirs", 0o755), (team / "theirs" / "thesis", 0o600)):
        shutil.chown(path, OTHER)
        path.chmod(mode)
    team.parent.chmod(0o777)
    return team


def test_the_head_removes_a_runs_directory_with_the_rights_of_who_wrote_its_run_json(cluster, folder, teams):  # noqa: F811
    person = Person(cluster, PERSON)
    assert submit_as(cluster, PERSON, write_job(folder, "team", "true", storage_path=str(teams.parent)))["state"] == "SUCCEEDED"
    status, text = person.call("DELETE", "/v1/runs/team?files=true")
    assert [path.read_text() for path in pathlib.Path(folder).rglob("thesis")] == ["theirs"], (status, text)


def test_the_head_reads_a_runs_files_with_the_rights_of_who_wrote_its_run_json(cluster, folder, teams):  # noqa: F811
    person = Person(cluster, PERSON)
    moves = f"echo own > {teams}/own; mv {teams}/theirs {teams}/code; mkdir {teams}/logs; echo own > {teams}/logs/own"
    assert submit_as(cluster, PERSON, write_job(folder, "team", moves, storage_path=str(teams.parent)))["state"] == "SUCCEEDED"
    assert person.call("GET", "/v1/runs/team/files/logs/own")[:1] == (200,)
    status, text = person.call("GET", "/v1/runs/team/files/code/thesis")
    assert status != 200 and b"theirs" not in text

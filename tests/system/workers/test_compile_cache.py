"""Tests that the next attempt of the same user and environment reuses the torch.compile cache, and that no other run does."""

import json
import os
import pathlib
import subprocess

import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import RTRAIN, LocalCluster

PROGRAM = str(JOBS / "compiles.py")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("compiles") / "c", nodes=1, resources="CPU=2")
    yield made
    made.stop()


def run(cluster, folder, name, entrypoint=("python", PROGRAM), user="", **fields):
    env = dict(cluster.env)
    if user:
        env["RTRAIN_TOKEN"] = cluster.json("token", "create", "--role", "user", "--user", user)["token"]
    job = write_job(folder, name, list(entrypoint), **fields)
    subprocess.run([RTRAIN, "submit", job, "-f"], env=env, capture_output=True, text=True)
    logs = cluster.rtrain("logs", name)
    assert cluster.json("describe", name)["state"] == "SUCCEEDED", logs
    return json.loads(next(line.split("facts ", 1)[1] for line in logs.splitlines() if "facts " in line))


SHOW = ["python", "-c", "import json, os; print('facts ' + json.dumps(dict(os.environ)))"]


def test_the_second_attempt_hits_the_cache(cluster, tmp_path):
    first, second = (run(cluster, tmp_path, name) for name in ("first", "second"))
    print(f"first {first['seconds']} s, second {second['seconds']} s")
    assert first["hits"] == 0 and first["misses"] > 0
    assert second["hits"] > 0 and second["misses"] == 0
    place = pathlib.Path(second["TORCHINDUCTOR_CACHE_DIR"])
    assert place.is_relative_to(cluster.folder / "node-1" / "caches") and place.parent.stat().st_mode & 0o7777 == 0o700
    assert second["TRITON_CACHE_DIR"] == str(place.parent / "triton")
    assert second["HF_HOME"] == os.environ.get("HF_HOME")  # untouched


def test_a_jobs_own_setting_wins(cluster, tmp_path):
    own = run(cluster, tmp_path, "own", SHOW, env={"TORCHINDUCTOR_CACHE_DIR": "/own/inductor"})
    assert own["TORCHINDUCTOR_CACHE_DIR"] == "/own/inductor" and "TRITON_CACHE_DIR" not in own
    triton = run(cluster, tmp_path, "triton", SHOW, env={"TRITON_CACHE_DIR": "/own/triton"})
    assert triton["TRITON_CACHE_DIR"] == "/own/triton" and "/caches/" in triton["TORCHINDUCTOR_CACHE_DIR"]


def test_users_and_environments_have_caches_of_their_own(cluster, tmp_path):
    def place(name, **fields):
        return run(cluster, tmp_path, name, SHOW, **fields)["TORCHINDUCTOR_CACHE_DIR"]

    one = place("ana-1", user="ana")
    assert place("ana-2", user="ana", env={"SEED": "2"}) == one
    others = [
        place("ben", user="ben"),
        place("ana-path", user="ana", env={"PYTHONPATH": "/opt/other"}),
        place("ana-setup", user="ana", setup="echo made > made.txt"),
        run(cluster, tmp_path, "ana-system", ["/usr/bin/python3", *SHOW[1:]], user="ana")["TORCHINDUCTOR_CACHE_DIR"],
    ]
    assert one not in others and len(set(others[:2] + others[3:])) == 3
    shell = [
        run(cluster, tmp_path, f"shell-{i}", ["sh", "-c", "cd / && " + " ".join(SHOW[:2]) + f' "{SHOW[2]}"'])[
            "TORCHINDUCTOR_CACHE_DIR"
        ]
        for i in (1, 2)
    ]
    assert shell[0] == shell[1]

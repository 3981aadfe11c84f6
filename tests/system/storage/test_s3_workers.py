"""Tests workers of runs in a bucket: the agent reads and writes checkpoints for them; what they read themselves needs the
job's secrets.
"""

import json
import os
import signal
import subprocess

import pytest
from jobs_on_disk import ranks_job
from local_cluster import ROOT, RTRAIN, LocalCluster, wait_for


@pytest.fixture
def cluster(bucket, tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2")
    yield made
    made.stop()


def test_a_worker_without_credentials_trains_and_resumes_in_a_bucket(cluster, bucket, tmp_path):
    job = ranks_job(
        tmp_path, "bare", 12, 0.3, workers=2, max_failures=3, storage_path=f"{bucket.root}/bare",
        before='unset "${!AWS_@}" "${!GOOGLE_@}"; if env | grep -E "^(AWS|GS|GOOGLE|AZURE|STORAGE)_"; then exit 9; fi; exec "$@"',
    )  # fmt: skip
    cluster.rtrain("submit", job)
    wait_for("a checkpoint", lambda: cluster.json("describe", "bare")["latest_checkpoint"])
    os.kill(cluster.json("describe", "bare")["attempt_list"][-1]["workers"][1]["pid"], signal.SIGKILL)
    cluster.wait_state("bare", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "bare")
    assert facts["state"] == "SUCCEEDED", facts["reason"]
    assert facts["attempt_list"][1]["from"]
    assert "resumed at" in cluster.rtrain("logs", "bare", "--rank", "all")


DRIVER = """
import json, os
from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig

ROOT, KEYS, ENV = os.environ["TEST_BUCKET"], json.loads(os.environ["TEST_KEYS"]), json.loads(os.environ["TEST_ENV"])
ADVICE = os.environ["TEST_ADVICE"]

def first(config):
    from rtrain import train
    train.report({"step": 1}, checkpoint=train.Checkpoint.from_dict({"step": 7}))

def reads(config):
    from rtrain import train
    if config["bare"]:
        for name in [name for name in os.environ if name.startswith(("AWS_", "GS_", "GOOGLE_", "STORAGE_", "AZURE_"))]:
            del os.environ[name]
        os.environ.update(AWS_SHARED_CREDENTIALS_FILE="/nonexistent", AWS_EC2_METADATA_DISABLED="true", HOME="/nonexistent",
                          NO_GCE_CHECK="true", AZURE_STORAGE_ACCOUNT="devstoreaccount1", IDENTITY_ENDPOINT="http://127.0.0.1:1")
        try:
            train.Checkpoint(config["path"]).to_dict()
        except PermissionError as error:
            return str(error)
    return train.Checkpoint(config["path"]).to_dict()["step"], os.environ["HF_TOKEN"]

def fit(name, loop, config=None, **more):
    run_config = RunConfig(name=name, storage_path=ROOT + "/workers", **more)
    return DataParallelTrainer(loop, train_loop_config=config, scaling_config=ScalingConfig(num_workers=1),
                               run_config=run_config).fit()

path = fit("first", first).checkpoint.path
assert path.startswith(ROOT + "/workers/first/"), path
os.environ["HF_TOKEN"] = "of-the-driver"
os.environ.update(KEYS)
names = [*KEYS, "HF_TOKEN"]
found = fit("reads", reads, {"path": path, "bare": False}, secrets=names, env=ENV).return_value
assert tuple(found) == (7, "of-the-driver"), found
said = fit("bare", reads, {"path": path, "bare": True}).return_value
assert "credentials" in said and ADVICE in said, said
try:
    fit("missing", first, secrets=["NOT_SET_ANYWHERE"])
except ValueError as error:
    assert "NOT_SET_ANYWHERE" in str(error)
else:
    raise AssertionError("a secret that is not set was let through")
"""


def test_a_worker_reads_a_bucket_with_secrets_of_its_job_and_is_told_so(cluster, bucket, tmp_path):
    (tmp_path / "driver.py").write_text(DRIVER)
    env = {**cluster.env, "RTRAIN_BINARY": str(RTRAIN), "TEST_BUCKET": bucket.root, "TEST_KEYS": json.dumps(bucket.secrets),
           "TEST_ENV": json.dumps(bucket.job_env()), "TEST_ADVICE": f"secrets: [{next(iter(bucket.advised))}"}  # fmt: skip
    command = [str(ROOT / ".venv/bin/python"), str(tmp_path / "driver.py")]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
    job = cluster.rtrain("describe", "reads", "-o", "json")
    assert "of-the-driver" not in job and "HF_TOKEN" in job


FILESYSTEM = """
import os, sys
import pyarrow.fs
from rtrain.train import Checkpoint, DataParallelTrainer, Result, RunConfig, ScalingConfig

theirs = pyarrow.fs.S3FileSystem(access_key="another-key", secret_key="another-test-secret", region="us-east-1",
                                 scheme="http", endpoint_override=sys.argv[1])
assert not any(name.startswith("AWS_ACCESS") or name.startswith("AWS_SECRET") for name in os.environ)

server = sys.argv[1]

def loop():
    from rtrain import train
    storage = train.get_context().get_storage()
    train.report({"step": 1}, checkpoint=train.Checkpoint.from_dict({"step": 7}))
    train.flush()
    place = storage.build_checkpoint_path_from_name(train.get_checkpoint().name)
    options = storage.storage_filesystem.__reduce__()[1][0]
    return place, (options["access_key"], options["endpoint_override"]) == ("another-key", server)

result = DataParallelTrainer(loop, scaling_config=ScalingConfig(num_workers=1), run_config=RunConfig(
    name="theirs", storage_path="runs/of-another", storage_filesystem=theirs)).fit()
assert result.path == "runs/of-another/theirs", result.path
assert result.return_value[1] and result.return_value[0].startswith("runs/of-another/theirs/"), result.return_value
assert result.checkpoint.to_dict() == {"step": 7}
"""

READS = """
import sys
import pyarrow.fs
from rtrain.train import Result

theirs = pyarrow.fs.S3FileSystem(access_key="another-key", secret_key="another-test-secret", region="us-east-1",
                                 scheme="http", endpoint_override=sys.argv[1])
found = Result.from_path("runs/of-another/theirs", storage_filesystem=theirs)
assert found.metrics == {"step": 1} and found.checkpoint.to_dict() == {"step": 7}
"""


def test_a_file_system_s_keys_and_server_are_the_run_s_and_its_results(s3, tmp_path):
    cluster = LocalCluster(tmp_path / "cluster", nodes=1, resources="CPU=2")
    try:
        check_a_file_system(cluster, s3, tmp_path)
    finally:
        cluster.stop()


def check_a_file_system(cluster, s3, tmp_path):
    env = {name: value for name, value in cluster.env.items() if not name.startswith("AWS_")}
    env |= {"RTRAIN_BINARY": str(RTRAIN), "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", "AWS_EC2_METADATA_DISABLED": "true"}
    for number, script in enumerate((FILESYSTEM, READS)):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "driver.py").write_text(script)
        command = [str(ROOT / ".venv/bin/python"), str(tmp_path / str(number) / "driver.py"), f"127.0.0.1:{s3.port}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
    keys = {key for path, ids in s3.signers().items() if "of-another" in path for key in ids}
    assert keys == {"another-key"}
    kept = [one for one in (tmp_path / "cluster").rglob("*.pkl") if b"another-test-secret" in one.read_bytes()]
    assert not kept

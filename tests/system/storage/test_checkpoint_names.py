"""Tests names that a program gives to checkpoints, with the claims of names stored in a bucket or on the head."""

import concurrent.futures
import http.client
import json
import re
import ssl

import boto3
import botocore.exceptions
import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import LocalCluster


class InABucket:
    fields = {"storage_path": "s3://runs/named"}

    def __init__(self, server):
        self.endpoint = server.environment["AWS_ENDPOINT_URL"]

    def create(self, cluster, path, body):
        """Returns true if the object was created; false if it existed."""
        s3 = boto3.session.Session().client("s3", endpoint_url=self.endpoint, region_name="us-east-1")
        try:
            s3.put_object(Bucket="runs", Key=f"named/{path}", Body=body, IfNoneMatch="*")
        except botocore.exceptions.ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 412, error
            return False
        return True


class OnTheHead:
    fields = {}

    def create(self, cluster, path, body):
        token = re.search(r"rtu1\.[\w.]+", (cluster.folder / "config.yaml").read_text())[0]
        head = http.client.HTTPSConnection("127.0.0.1", cluster.port, context=ssl._create_unverified_context(), timeout=30)
        headers = {"Authorization": f"Bearer {token}", "If-None-Match": "*"}
        head.request("PUT", f"/v1/storage/{path}", body=body, headers=headers)
        status = head.getresponse().status
        assert status in (201, 412), status
        return status == 201


@pytest.fixture(params=[InABucket, OnTheHead])
def storage(request):
    return request.param(request.getfixturevalue("s3")) if request.param is InABucket else OnTheHead()


@pytest.fixture
def cluster(storage, tmp_path):
    made = LocalCluster(tmp_path / "cluster", nodes=2, resources="CPU=1")
    yield made
    made.stop()


def submit(cluster, tmp_path, storage, *flags):
    """Submits a run on two nodes whose ranks start once the file `gate` exists."""
    wait = f'until [ -e {tmp_path}/gate ]; do sleep 0.05; done; exec "$@"'
    entrypoint = ["bash", "-c", wait, "bash", "python", str(JOBS / "wished_name.py")]
    failure = {"max_failures": 1, "backoff": "100ms..1s"}
    cluster.rtrain("submit", write_job(tmp_path, "named", entrypoint, workers=2, failure=failure, **storage.fields), *flags)


def ended_well(cluster):
    cluster.wait_state("named", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "named")
    assert facts["state"] == "SUCCEEDED", facts["reason"]


def directories(cluster):
    return sorted(one["directory"] for one in cluster.json("checkpoints", "list", "named")["items"])


def test_a_name_is_exact_while_free_and_has_the_attempts_number_afterwards(cluster, tmp_path, storage):
    (tmp_path / "gate").touch()
    submit(cluster, tmp_path, storage)
    ended_well(cluster)
    assert directories(cluster) == ["best", "best-2-a001", "best-a002"]
    assert "began from best-2-a001" in cluster.rtrain("logs", "named", "--rank", "all")

    submit(cluster, tmp_path, storage, "--resume")
    ended_well(cluster)
    assert directories(cluster) == ["best", "best-2-a001", "best-a002", "best-a003"]
    cluster.rtrain("checkpoints", "verify", "named@best")
    assert not storage.create(cluster, "named/names/best", b"{}")  # the claim exists


def test_of_several_that_race_for_a_name_one_has_it_and_the_run_numbers_its_own(cluster, tmp_path, storage):
    submit(cluster, tmp_path, storage)
    cluster.wait_state("named", "RUNNING", "FAILED")
    claims = [json.dumps({"schema_version": 1, "attempt": attempt, "report": 1}).encode() for attempt in range(70, 86)]
    with concurrent.futures.ThreadPoolExecutor(len(claims)) as racing:
        won = list(racing.map(lambda claim: storage.create(cluster, "named/names/best", claim), claims))
    assert won.count(True) == 1
    (tmp_path / "gate").touch()
    ended_well(cluster)
    assert directories(cluster) == ["best-2-a001", "best-a001", "best-a002"]


def test_a_name_that_holds_deeper_claims_is_given_to_nobody(cluster, tmp_path, storage):
    """Simulates a run that was copied there, and whose loop had put a checkpoint into best/3."""
    submit(cluster, tmp_path, storage)
    cluster.wait_state("named", "RUNNING", "FAILED")
    assert storage.create(cluster, "named/names/best/3", json.dumps({"schema_version": 1, "attempt": 9, "report": 1}).encode())
    (tmp_path / "gate").touch()
    ended_well(cluster)
    assert directories(cluster) == ["best-2-a001", "best-a001", "best-a002"]

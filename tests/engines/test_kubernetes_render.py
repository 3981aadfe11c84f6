"""Tests `rtrain kubernetes render`: Kubernetes' schemas accept its documents, and the script of its Job runs here as in the
pod, against a real head. A stand-in for the API server checks that the run's files existed when the workers were released.
"""

import base64
import http.server
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import threading

import pytest
import yaml
from jobs_on_disk import ranks_job, write_job
from local_cluster import RTRAIN, LocalCluster, wait_for

VERSIONS = ("1.27", "1.31", "1.34")


def render(*words, code=0):
    done = subprocess.run([RTRAIN, "kubernetes", "render", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def documents(*words):
    made = {one["kind"]: one for one in yaml.safe_load_all(render(*words).stdout)}
    validate = pytest.importorskip("kubernetes_validate", reason="needs PyPI's kubernetes-validate (scripts/bootstrap)")
    for version in VERSIONS:
        for one in made.values():
            validate.validate(one, version, strict=True)
    return made


def test_a_job_keeps_to_the_schemas_and_says_what_the_spec_says(tmp_path):
    job = write_job(tmp_path, "GPT_1b", "true", workers=4, limits={"wall_time": "1h30m"},
                    secrets=["HF_TOKEN"], storage_path="/mnt/shared/runs")  # fmt: skip
    made = documents(job, "--image", "r:1", "--secrets-from", "tokens", "--kueue-queue", "team-a")
    assert set(made) == {"ConfigMap", "Job"}
    about, spec = made["Job"]["metadata"], made["Job"]["spec"]
    assert (about["name"], about["namespace"], about["labels"]["kueue.x-k8s.io/queue-name"]) == ("gpt-1b", "rtrain", "team-a")
    assert spec["suspend"] is True and spec["activeDeadlineSeconds"] == 5400 and spec["backoffLimit"] == 0
    pod = spec["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False and pod["securityContext"]["runAsNonRoot"] is True
    variables = {one["name"]: one for one in pod["containers"][0]["env"]}
    assert variables["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "tokens", "key": "HF_TOKEN"}
    assert variables["RTRAIN_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "rtrain-user", "key": "token"}
    policy = yaml.safe_load_all((pathlib.Path(__file__).parents[2] / "configs/kubernetes/base/cluster/network.yaml").read_text())
    let_in = [peer["podSelector"]["matchLabels"] for peer in next(policy)["spec"]["ingress"][0]["from"]]
    assert spec["template"]["metadata"]["labels"] in let_in
    plain = documents(write_job(tmp_path, "plain", "true"), "--image", "r:1")
    assert "suspend" not in plain["Job"]["spec"] and "activeDeadlineSeconds" not in plain["Job"]["spec"]
    listed = json.loads(render(job, "--image", "r:1", "--secrets-from", "tokens", "-o", "json").stdout)
    assert [one["kind"] for one in listed["items"]] == ["ConfigMap", "Job"]


def test_what_a_spec_holds_stays_what_it_is(tmp_path):
    """Checks that texts with a meaning for YAML, a shell, Kubernetes or the spec's variables arrive unchanged."""
    env = {"A": "x: y # z", "B": "$$HOME and $$(id)", "C": '"; rm -rf / #', "D": "yes", "E": "- a\n- b\t", "F": "é\u2028"}
    job = write_job(tmp_path, "odd", ["sh", "-c", "echo $HOME `id`"], env=env, labels={"team": "a: b"})
    made = documents(job, "--image", "r:1")
    (tmp_path / "again.yaml").write_text(made["ConfigMap"]["data"]["job.yaml"])
    before = json.loads(subprocess.run([RTRAIN, "validate", job, "-o", "json"], capture_output=True, text=True).stdout)["job"]
    after = json.loads(
        subprocess.run([RTRAIN, "validate", tmp_path / "again.yaml", "-o", "json"], capture_output=True, text=True).stdout
    )["job"]
    assert before == after and after["env"]["B"] == "$HOME and $(id)"
    script = made["ConfigMap"]["data"]["run.sh"]
    assert (
        "odd" not in script
        and made["ConfigMap"]["data"]["run.sh"]
        == documents(write_job(tmp_path, "other", "true"), "--image", "r:1")["ConfigMap"]["data"]["run.sh"]
    )  # the script contains no part of any name


def test_the_working_directory_travels_or_is_refused(tmp_path):
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print(1)\n")
    job = write_job(code, "packed", "python train.py", working_dir=".")
    made = documents(job, "--image", "r:1")["ConfigMap"]
    (tmp_path / "c.tar.zst").write_bytes(base64.b64decode(made["binaryData"]["code.tar.zst"]))
    listed = subprocess.run(["tar", "--zstd", "-tf", tmp_path / "c.tar.zst"], capture_output=True, text=True).stdout
    assert "train.py" in listed
    assert yaml.safe_load(made["data"]["job.yaml"])["working_dir"] == "/tmp/code"
    there = documents(job, "--image", "r:1", "--code-in-pod", "/mnt/shared/code")["ConfigMap"]
    assert yaml.safe_load(there["data"]["job.yaml"])["working_dir"] == "/mnt/shared/code" and "binaryData" not in there
    (code / "weights").write_bytes(os.urandom(1 << 20))
    assert "--code-in-pod" in render(job, "--image", "r:1", code=4).stderr


def test_refused_before_anything_is_made(tmp_path):
    job = write_job(tmp_path, "one", "true", storage_path="/scratch/runs")
    ends = ("--image", "r:1", "--worker-set", "rtrain-workers-one=4", "--shutdown-after-finish")
    assert "ends with the workers" in render(job, *ends, code=4).stderr
    assert "ends with the workers" in render(job, *ends, "--claim", "c:/scratch/run", code=4).stderr
    documents(job, *ends, "--claim", "c:/scratch")
    documents(write_job(tmp_path, "two", "true", storage_path="s3://bucket/runs"), *ends)
    documents(write_job(tmp_path, "three", "true"), *ends)  # on the head's volume
    render(job, "--image", "r:1", "--shutdown-after-finish", code=2)
    render(job, code=2)
    render(write_job(tmp_path, "secret", "true", secrets=["X"]), "--image", "r:1", code=4)
    for flag, wrong in (("--namespace", "a b"), ("--claim", "x:y"), ("--worker-set", "a=-1"), ("--kueue-queue", "Q;"),
                        ("--token-secret", "../x"), ("--head", "a b:1")):  # fmt: skip
        render(job, "--image", "r:1", flag, wrong, code=2)


# ---- runs the Job's script like its pod


class ApiServer:
    """Imitates the part of Kubernetes' API that the script uses: PATCH of a scale. Stores each request, and the result of `look`
    at that time."""

    def __init__(self, folder, look):
        self.scaled = []
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "key", "-out", folder / "ca.crt",
                        "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True,
                       capture_output=True)  # fmt: skip
        server = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_PATCH(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                kind = self.headers["Content-Type"]
                server.scaled.append((self.path, self.headers["Authorization"], kind, body["spec"]["replicas"], look()))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.crt", folder / "key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"https://localhost:{self.server.server_address[1]}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Pod:
    """Runs a rendered Job's script with the pod's paths in a folder: /job, /tmp, the account of Kubernetes, the user's Secret."""

    def __init__(self, folder, cluster, made, api=None):
        self.folder = folder
        folder.mkdir()
        for name in ("job", "tmp", "account"):
            (folder / name).mkdir()
        files = made["ConfigMap"]["data"] | {k: base64.b64decode(v) for k, v in made["ConfigMap"].get("binaryData", {}).items()}
        for name, content in files.items():
            (folder / "job" / name).write_bytes(self.moved(content, api).encode() if isinstance(content, str) else content)
        if api:
            (folder / "account" / "token").write_text("kubernetes-token")
            (folder / "account" / "ca.crt").write_bytes((folder.parent / "ca.crt").read_bytes())
        spec = made["Job"]["spec"]["template"]["spec"]
        given = {one["name"]: one.get("value", "") for one in spec["containers"][0]["env"]}
        user = cluster.json("token", "create", "--role", "user", "--user", "ana")["token"]
        self.env = {**os.environ, **given, "HOME": str(folder), "RTRAIN_ADDRESS": cluster.head_address(), "RTRAIN_TOKEN": user,
                    "RTRAIN_CA": str(cluster.folder / "head" / "ca.crt"), "NAMESPACE": "rtrain", "JOB_UID": "uid-1",
                    "PATH": f"{RTRAIN.parent}:{os.environ['PATH']}"}  # fmt: skip

    def moved(self, content, api):
        swaps = {"/var/run/secrets/kubernetes.io/serviceaccount": self.folder / "account", "/tmp/code": f"{self.folder}/tmp/code",
                 "/tmp/authorization": f"{self.folder}/tmp/authorization",
                 "/job/": f"{self.folder}/job/", "https://kubernetes.default.svc": api.address if api else ""}  # fmt: skip
        # Matches at the begin of a path only, since other paths contain the same words.
        where = r"(?<![\w/-])(" + "|".join(map(re.escape, swaps)) + ")"
        return re.sub(where, lambda at: str(swaps[at[1]]), content)

    def start(self):
        self.log = open(self.folder / "log", "a")  # noqa: SIM115
        return subprocess.Popen(["/bin/sh", self.folder / "job" / "run.sh"], env=self.env, stdout=self.log, stderr=self.log)

    def run(self):
        code = self.start().wait(120)
        return code, (self.folder / "log").read_text()


@pytest.fixture
def cluster(tmp_path):
    made = LocalCluster(tmp_path / "c", nodes=2)
    yield made
    made.stop()


def test_the_job_ends_with_the_runs_code_and_the_workers_go_once_all_is_stored(cluster, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    code = tmp_path / "code"
    code.mkdir()
    (code / "words.txt").write_text("from the working directory\n")
    both = f"{shared}/0 -a -e {shared}/1"  # both ranks have written; the first failure ends the other rank
    trains = f"cat words.txt; touch {shared}/$RANK; until [ -e {both} ]; do sleep 0.05; done; exit 3"
    job = write_job(code, "one", trains, workers=2, working_dir=".", storage_path=str(shared / "runs"))
    made = documents(
        job, "--image", "r:1", "--worker-set", "rtrain-workers-one=2", "--shutdown-after-finish", "--claim", f"c:{shared}"
    )
    (rule,) = made["Role"]["rules"]
    assert rule["resourceNames"] == ["rtrain-workers-one"] and rule["verbs"] == ["get", "patch"]

    def stored():
        return sorted(str(path.relative_to(shared / "runs" / "one")) for path in (shared / "runs").rglob("*") if path.is_file())

    api = ApiServer(tmp_path, stored)
    try:
        code, log = Pod(tmp_path / "pod", cluster, made, api).run()
    finally:
        api.stop()
    assert code == 3 and "from the working directory" in log, log
    paths = {path for path, *_ in api.scaled}
    assert paths == {"/apis/apps/v1/namespaces/rtrain/statefulsets/rtrain-workers-one/scale"}
    assert [kind for _, _, kind, *_ in api.scaled] == ["application/merge-patch+json"] * 2
    assert {authorization for _, authorization, *_ in api.scaled} == {"Bearer kubernetes-token"}
    up, down = [replicas for *_, replicas, _ in api.scaled], [files for *_, files in api.scaled][-1]
    assert up == [2, 0]
    for need in (
        "result.json",
        "attempts/000001/end.json",
        "logs/attempt-000001/rank-00000.out",
        "logs/attempt-000001/rank-00001.out",
    ):
        assert need in down, need


def test_a_pod_that_is_taken_away_stops_the_run_and_the_next_one_goes_on(cluster, tmp_path):
    made = documents(ranks_job(tmp_path, "long", 40, 0.3, storage_path=str(tmp_path / "runs")), "--image", "r:1")
    pod = Pod(tmp_path / "pod", cluster, made)
    first = pod.start()
    wait_for("a checkpoint", lambda: cluster.run("checkpoints", "list", "long", "-o", "name").stdout.strip())
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 143, (tmp_path / "pod" / "log").read_text()
    cluster.wait_state("long", "STOPPED")
    done = [one["metrics"]["step"] for one in cluster.json("checkpoints", "list", "long")["items"]]
    pod.env["JOB_UID"] = "uid-1"  # simulates Kueue, which suspends and resumes one Job
    code, log = pod.run()
    assert code == 0, log
    resumed = int(re.search(r"resumed at (\d+)", log)[1])
    assert resumed >= max(done) > 0 and "rank 0 is through" in log
    code, log = pod.run()  # a third pod of the successful run trains nothing
    assert code == 0 and len(cluster.json("runs", "--all")["items"]) == 2


def test_a_run_that_has_not_ended_is_not_stored(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "lives", "sleep 1000", storage_path=str(tmp_path / "runs")))
    assert cluster.run("runs", "stored", "lives").returncode == 7
    cluster.wait_state("lives", "RUNNING")
    cluster.rtrain("stop", "lives", "--now")
    cluster.wait_state("lives", "STOPPED")
    assert cluster.json("runs", "stored", "lives")["stored"] is True
    (tmp_path / "runs" / "lives" / "result.json").unlink()
    done = cluster.run("runs", "stored", "lives", "--timeout", "1s", "-o", "json")
    assert done.returncode == 8 and json.loads(done.stdout)["missing"] == ["result.json"]

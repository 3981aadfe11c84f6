"""Tests configs/kubernetes: kubectl renders each overlay, Kubernetes' schemas accept it, and all objects that it names exist
in it. The arguments of its containers start a head and an agent here, which answer the probes.
"""

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import urllib.request

import pytest
import yaml
from local_cluster import ROOT, RTRAIN, LocalCluster, environment, free_port, wait_for

KUBERNETES = ROOT / "configs" / "kubernetes"
OVERLAYS = sorted(folder.name for folder in (KUBERNETES / "overlays").iterdir())
VERSIONS = ("1.27", "1.31", "1.34")
PART = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"

validate = pytest.importorskip("kubernetes_validate", reason="needs PyPI's kubernetes-validate (scripts/bootstrap)")
needs_kubectl = pytest.mark.skipif(not shutil.which("kubectl"), reason="needs kubectl: Debian's package kubernetes-client")
KUBECTL = os.environ.get("RTRAIN_TEST_KUBECTL", "kubectl")


def rendered(overlay):
    done = subprocess.run([KUBECTL, "kustomize", KUBERNETES / "overlays" / overlay], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(documents, kind):
    return [one for one in documents if one["kind"] == kind]


def selects(selector, labels):
    return all(labels.get(name) == value for name, value in selector.items())


def pod_of(document):
    return document["spec"]["template"]


@pytest.fixture(scope="module", params=OVERLAYS)
def documents(request):
    return rendered(request.param)


def held_to_schemas(documents):
    for version in VERSIONS:
        for one in documents:
            validate.validate(one, version, strict=True)


@needs_kubectl
def test_every_overlay_keeps_to_the_schemas(documents):
    held_to_schemas(documents)
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in documents]
    assert len(names) == len(set(names))
    for kind, namespace, name in names:
        assert namespace == (None if kind == "Namespace" else "rtrain"), (kind, name)


def test_the_check_of_schemas_can_fail():
    with pytest.raises(validate.ValidationError):
        held_to_schemas(
            [{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": [{"port": "many"}]}}]
        )


@needs_kubectl
def test_what_a_manifest_names_is_in_it(documents):
    pods = {one["metadata"]["name"]: pod_of(one) for one in of_kind(documents, "StatefulSet")}
    assert "rtrain-head" in pods and len(pods) >= 2
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(documents, "Service")}
    secrets = {one["metadata"]["name"] for one in of_kind(documents, "Secret")}
    claims = {one["metadata"]["name"] for one in of_kind(documents, "PersistentVolumeClaim")}
    for one in of_kind(documents, "StatefulSet"):
        name, labels = one["metadata"]["name"], pod_of(one)["metadata"]["labels"]
        selector = one["spec"]["selector"]["matchLabels"]
        assert [other for other, pod in pods.items() if selects(selector, pod["metadata"]["labels"])] == [name]
        service = services[one["spec"]["serviceName"]]
        assert selects(service["selector"], labels)
        assert {port["targetPort"] for port in service["ports"]} <= {
            port["name"] for port in pod_of(one)["spec"]["containers"][0]["ports"]
        }
        for volume in pod_of(one)["spec"]["volumes"]:
            assert volume.get("secret", {}).get("secretName", "rtrain-join") in secrets
            assert volume.get("persistentVolumeClaim", {}).get("claimName", "rtrain-shared") in claims
        mounts = {mount["name"] for mount in pod_of(one)["spec"]["containers"][0]["volumeMounts"]}
        given = {volume["name"] for volume in pod_of(one)["spec"]["volumes"]}
        given |= {template["metadata"]["name"] for template in one["spec"].get("volumeClaimTemplates", [])}
        assert mounts == given and "shared" in mounts
    budgets = [one["spec"]["selector"]["matchLabels"] for one in of_kind(documents, "PodDisruptionBudget")]
    for name, pod in pods.items():
        held = sum(selects(budget, pod["metadata"]["labels"]) for budget in budgets)
        assert held == (0 if name == "rtrain-head" else 1), name


@needs_kubectl
def test_pods_have_no_more_rights_than_they_need(documents):
    """Checks the level `restricted`, except for IPC_LOCK with RDMA, and that pods have no token of Kubernetes or of rtrain."""
    for one in of_kind(documents, "StatefulSet"):
        spec = pod_of(one)["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] == 10001
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["enableServiceLinks"] is False
        assert spec["automountServiceAccountToken"] is (one["metadata"]["name"] == "rtrain-head" and "serviceAccountName" in spec)
        (container,) = spec["containers"]
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True
        assert own["capabilities"]["drop"] == ["ALL"] and own["capabilities"].get("add", []) in ([], ["IPC_LOCK"])
        assert "--token" not in container["args"] and not [e for e in container["env"] if "TOKEN" in e["name"]]
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert name in container
        assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
    for secret in of_kind(documents, "Secret"):
        assert not secret.get("data") and not secret.get("stringData")
    (namespace,) = of_kind(documents, "Namespace")
    level = namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    locks = any("IPC_LOCK" in json.dumps(one) for one in of_kind(documents, "StatefulSet"))
    assert level == ("privileged" if locks else "restricted")


@needs_kubectl
def test_policies_let_in_whom_they_should(documents):
    policies = {one["metadata"]["name"]: one["spec"] for one in of_kind(documents, "NetworkPolicy")}
    for one in of_kind(documents, "StatefulSet"):
        labels = pod_of(one)["metadata"]["labels"]
        (policy,) = [spec for spec in policies.values() if selects(spec["podSelector"]["matchLabels"], labels)]
        worker = {PART: "rtrain", COMPONENT: "worker"}
        stranger = {PART: "rtrain-not"}
        let_in = [peer["podSelector"]["matchLabels"] for rule in policy["ingress"] for peer in rule["from"]]
        assert any(selects(who, worker) for who in let_in) and not any(selects(who, stranger) for who in let_in)
    assert policies["rtrain-head"]["ingress"][0]["ports"] == [{"protocol": "TCP", "port": 7433}]
    blocked = [to["ipBlock"]["except"] for rule in policies["rtrain-workers"]["egress"] for to in rule["to"] if "ipBlock" in to]
    lend_roles = {"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "168.63.129.16/32", "fd00:ec2::254/128"}
    assert lend_roles <= {network for networks in blocked for network in networks}


@needs_kubectl
def test_gpu_limits_are_requests_and_sets_stay_apart():
    (workers,) = [one for one in of_kind(rendered("gpu"), "StatefulSet") if one["metadata"]["name"] != "rtrain-head"]
    (agent,) = pod_of(workers)["spec"]["containers"]
    assert (
        agent["resources"]["limits"]["nvidia.com/gpu"] == "8" and agent["resources"]["requests"] == agent["resources"]["limits"]
    )
    assert agent["image"] == "registry.example.com/rtrain:0.1.0"
    assert not any("GPU" in word for word in agent["args"])  # the agent finds the device plugin's GPUs by NVML
    sets = {one["metadata"]["name"]: one for one in of_kind(rendered("mixed"), "StatefulSet")}
    assert set(sets) == {"rtrain-head", "rtrain-workers-cpu", "rtrain-workers-a100"}
    for name in ("rtrain-workers-cpu", "rtrain-workers-a100"):
        volumes = {volume["name"]: volume for volume in pod_of(sets[name])["spec"]["volumes"]}
        assert volumes["join-token"]["secret"]["secretName"] == "rtrain-join"  # all sets use one Secret
        assert volumes["shared"]["persistentVolumeClaim"]["claimName"] == "rtrain-shared"
    (lock,) = [one for one in of_kind(rendered("rdma"), "StatefulSet") if one["metadata"]["name"] != "rtrain-head"]
    limits = pod_of(lock)["spec"]["containers"][0]["resources"]["limits"]
    assert limits["rdma/rdma_shared_device_a"] == "1" and limits["nvidia.com/gpu"] == "8"


@needs_kubectl
def test_the_autoscaled_set_is_the_one_that_the_heads_account_may_scale():
    documents = rendered("autoscale")
    sets = {one["metadata"]["name"]: one["spec"] for one in of_kind(documents, "StatefulSet")}
    (file,) = of_kind(documents, "ConfigMap")
    rules = yaml.safe_load(file["data"]["autoscale.yaml"])["autoscale"]
    (role,) = [one["rules"] for one in of_kind(documents, "Role")]
    for command in (rules["provision"], rules["release"]):
        assert command[:3] == ["/etc/rtrain/statefulset", "rtrain", "rtrain-workers"]
    assert "statefulset" in file["data"] and [rule["resourceNames"] for rule in role] == [["rtrain-workers"]] * 2
    workers = sets["rtrain-workers"]["template"]["spec"]["containers"][0]
    assert workers["args"][-2:] == ["--label", "rtrain.autoscale=true"] and "replicas" not in sets["rtrain-workers"]
    assert {name.lower(): str(amount) for name, amount in rules["node"].items()} == workers["resources"]["limits"]
    pod = sets["rtrain-head"]["template"]["spec"]
    assert pod["containers"][0]["args"][-2:] == ["--autoscale", "/etc/rtrain/autoscale.yaml"]
    assert [one["configMap"]["name"] for one in pod["volumes"] if "configMap" in one] == [file["metadata"]["name"]]
    (account,) = of_kind(documents, "ServiceAccount")
    (binding,) = of_kind(documents, "RoleBinding")
    assert pod["serviceAccountName"] == account["metadata"]["name"] == binding["subjects"][0]["name"]


def test_the_image_runs_as_the_user_of_the_pods():
    words = (KUBERNETES / "Containerfile").read_text()
    assert re.search(r"^USER 10001:10001$", words, re.M)
    assert re.search(r'^ENTRYPOINT \["/usr/bin/tini", "--", "rtrain"\]$', words, re.M)
    packages = re.search(r"--no-install-recommends ([^\\]+)\\", words)[1].replace("$EXTRA_PACKAGES", "kubernetes-client")
    for package in packages.split():
        assert subprocess.run(["apt-cache", "show", package], capture_output=True).returncode == 0, package


# ---- start real daemons with the containers' arguments


class FromManifests(LocalCluster):
    """A head and one agent, started with the arguments and variables of an overlay's pods. The test sets the values that a
    Kubernetes cluster would set (volumes, the Service's name, limits), and free ports.
    """

    def __init__(self, folder, documents, node="rtrain-workers-0"):
        folder.mkdir()
        self.containers = {
            one["metadata"]["name"]: pod_of(one)["spec"]["containers"][0] for one in of_kind(documents, "StatefulSet")
        }
        self.token_file = folder / "token"
        self.node_name = node
        self.peer_port = free_port()
        super().__init__(folder / "c", nodes=0)

    def env_of(self, container):
        variables = {}
        for one in container["env"]:
            field = one.get("valueFrom", {}).get("resourceFieldRef", {}).get("resource", "")
            variables[one["name"]] = (
                one["value"] if "value" in one else amount(container["resources"]["limits"][field.split(".")[1]])
            )
        return variables

    def arguments_of(self, name):
        container = self.containers[name]
        variables = {k: self.place(v) for k, v in self.env_of(container).items()}
        words = [re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], self.place(word)) for word in container["args"]]
        return words, variables

    def place(self, word):
        swaps = {"/var/lib/rtrain-head": self.folder / "head", "/var/lib/rtrain": self.folder / "node",
                 "/run/secrets/rtrain/token": self.token_file, "rtrain-head:7433": f"127.0.0.1:{self.port}",
                 "7433": self.port, "7434": self.peer_port}  # fmt: skip
        for old, new in swaps.items():
            if word == old or word.startswith(f"{old}/"):
                return f"{new}{word[len(old) :]}"
        return word

    def start_head(self):
        words, variables = self.arguments_of("rtrain-head")
        words[words.index("0.0.0.0")] = "127.0.0.1"  # tests listen on loopback only
        (self.folder / "head").mkdir()
        self.env = environment(variables["RTRAIN_CONFIG"])
        self.start("head", *words)

    def start_node(self):
        words, _ = self.arguments_of("rtrain-workers")
        # The pod's host name; tests may run as root.
        self.start("node", *words, "--name", self.node_name, "--allow-root-workers")


def amount(text):
    """Returns a limit in the format of the Downward API: whole processors, bytes."""
    return str(int(text[:-2]) << 30) if text.endswith("Gi") else text


@needs_kubectl
def test_the_pods_arguments_make_a_cluster(tmp_path):
    cluster = FromManifests(tmp_path / "k", rendered("cpu"))
    try:
        answered = urllib.request.urlopen(f"https://127.0.0.1:{cluster.port}/healthz", context=ssl._create_unverified_context())
        assert answered.status == 200  # the request of the kubelet
        assert "rtn1." not in (cluster.folder / "head.log").read_text()  # the pod's log contains no token

        cluster.token_file.write_text("")
        cluster.start_node()  # the Secret has no value yet
        assert cluster.daemons.pop("node").wait(20) == 2

        made = cluster.json("token", "create", "--role", "node", "--uses", 100, "--expires", "90d")
        cluster.token_file.write_text(made["token"] + "\n")
        cluster.token_file.chmod(0o644)
        cluster.start_node()
        assert cluster.daemons.pop("node").wait(20) == 2
        assert "may read" in (cluster.folder / "node.log").read_text()

        cluster.token_file.chmod(0o440)
        cluster.start_node()
        wait_for("the node", lambda: cluster.ready_nodes() == 1)
        (node,) = cluster.json("nodes")["items"]
        assert (node["node"], node["resources"]["CPU"], node["resources"]["memory"]) == ("rtrain-workers-0", "4", str(16 << 30))
        assert node["port"] == cluster.peer_port
        log = (cluster.folder / "node.log").read_text()
        for _ in range(3):  # the kubelet's tcpSocket probe
            with socket.create_connection(("127.0.0.1", cluster.peer_port), 5):
                pass
        (tmp_path / "job.yaml").write_text(f"version: 1\nname: one\nentrypoint: echo trained\nstorage_path: {tmp_path}/runs\n")
        done = cluster.run("submit", tmp_path / "job.yaml", "-f")
        assert done.returncode == 0 and "trained" in done.stdout, done.stderr
        assert (cluster.folder / "node.log").read_text() == log  # a probe writes no line to the log
    finally:
        cluster.stop()


def test_a_token_file_is_read_once_and_tells_what_is_wrong_with_it(tmp_path):
    def refused(*words):
        done = subprocess.run([RTRAIN, "node", "join", "127.0.0.1:1", "--data", tmp_path / "d", *map(str, words)], capture_output=True,
                              text=True, env={**os.environ, "RTRAIN_CONFIG": str(tmp_path / "c.yaml")})  # fmt: skip
        return done.returncode, done.stderr

    code, words = refused("--token-file", tmp_path / "none")
    assert code == 3 and "cannot be opened" in words
    (tmp_path / "t").write_text("rtn1.secret\n")
    (tmp_path / "t").chmod(0o604)
    code, words = refused("--token-file", tmp_path / "t")
    assert code == 2 and "may read" in words and "rtn1.secret" not in words

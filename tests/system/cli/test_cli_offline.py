"""Tests the parts of the command line that need no daemon: help, completion, validate, plan, errors, formats."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from local_cluster import ROOT, RTRAIN, environment

GOOD = "version: 1\nname: fine\nentrypoint: /bin/true\n"
CLUSTER = """
nodes:
  - {id: n1, resources: {CPU: 4}}
  - {id: n2, resources: {CPU: 4}}
allocations:
  - {node: n2, resources: {CPU: 3}}
"""


@pytest.fixture
def rtrain(tmp_path):
    env = environment(tmp_path / "config.yaml")

    def run(*arguments, stdin="", **variables):
        return subprocess.run(
            [RTRAIN, *map(str, arguments)], env={**env, **variables}, cwd=tmp_path, input=stdin, capture_output=True, text=True
        )

    return run


def verbs(rtrain):
    return [row["verb"] for row in json.loads(rtrain("help", "-o", "json").stdout)["items"]]


def test_version_in_every_format(rtrain):
    assert re.fullmatch(r"rtrain \d+\.\d+\.\d+\n", rtrain("version").stdout)
    whole = json.loads(rtrain("version", "-o", "json").stdout)
    assert whole["schema_version"] == 1
    assert rtrain("version", "-o", "name").stdout.strip() == whole["version"]
    assert json.loads(rtrain("version", "-o", "jsonl").stdout) == whole
    assert f'version: "{whole["version"]}"' in rtrain("version", "-o", "yaml").stdout


def test_the_program_needs_neither_pytorch_nor_python_nor_curl():
    libraries = subprocess.run(["ldd", RTRAIN], capture_output=True, text=True, check=True).stdout
    needed = " ".join(line.split()[0] for line in libraries.splitlines())  # names without paths, as a path may contain "c10"
    assert "libc.so" in needed
    assert not [word for word in ("torch", "c10", "python", "curl", "libcuda", "libnvidia") if word in needed], needed


def test_every_verb_explains_itself_and_stands_in_the_documentation(rtrain):
    page = (ROOT / "docs" / "cli.md").read_text()
    for verb in verbs(rtrain):
        shown = rtrain(*verb.split(), "--help")
        assert shown.returncode == 0 and f"rtrain {verb}" in shown.stdout and "--output" in shown.stdout
        assert f"rtrain {verb}" in page, f"docs/cli.md does not name {verb}"


@pytest.mark.parametrize("words, printed", [
    (["sumbit"], 'did you mean "submit"?'),
    (["head", "strat"], 'did you mean "start"?'),
    (["runs", "--al"], 'did you mean "--all"?'),
    (["runs", "-o", "jsn"], 'did you mean "json"?'),
    (["describe"], "needs RUN|NODE"),
    (["logs", "r", "--tail", "x"], "not a whole number"),
])  # fmt: skip
def test_wrong_usage_ends_with_2_and_the_nearest_word(rtrain, words, printed):
    done = rtrain(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert printed in done.stderr


def test_an_error_has_the_format_that_was_asked_for(rtrain):
    for words in (["runs", "-o", "json"], ["sumbit", "-o", "json"], ["-o=jsonl", "runs"]):
        done = rtrain(*words)
        error = json.loads(done.stdout)
        assert error["schema_version"] == 1
        assert error["error"]["exit_code"] == done.returncode
        assert error["error"]["message"] and error["error"]["next"]
    assert rtrain("runs", "-o", "yaml").stdout.startswith("error:")


def test_without_a_cluster_the_exit_code_is_5_and_the_way_to_one_is_named(rtrain):
    done = rtrain("runs")
    assert done.returncode == 5
    assert "rtrain up" in done.stderr


def test_a_head_that_is_away_is_5_too(rtrain, tmp_path):
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n")
    done = rtrain("status", "--address", "127.0.0.1:1", "--ca-fingerprint", "0" * 64)
    assert done.returncode == 2  # the flag belongs to `context add` alone
    done = rtrain("status", RTRAIN_ADDRESS="127.0.0.1:1", RTRAIN_CA_FINGERPRINT="0" * 64, RTRAIN_TOKEN="t")
    assert done.returncode == 5, done.stderr
    assert "127.0.0.1:1" in done.stderr


def test_validate_names_every_problem_with_its_line(rtrain, tmp_path):
    (tmp_path / "good.yaml").write_text(GOOD)
    assert rtrain("validate", "good.yaml").returncode == 0
    assert json.loads(rtrain("validate", "good.yaml", "-o", "json").stdout)["valid"] is True
    (tmp_path / "bad.yaml").write_text("version: 1\nname: -bad\nentrypont: /bin/true\nscaling:\n  workers: NO\n")
    done = rtrain("validate", "bad.yaml", "-o", "json")
    assert done.returncode == 4
    problems = json.loads(done.stdout)["error"]["problems"]
    assert {2, 3, 5} <= {problem["line"] for problem in problems}
    assert "entrypoint" in done.stderr and "bad.yaml:3" in done.stderr
    assert rtrain("validate", "none.yaml").returncode == 3
    assert rtrain("validate", "-", stdin=GOOD).returncode == 0


def test_set_changes_the_spec_before_it_is_checked(rtrain, tmp_path):
    (tmp_path / "job.yaml").write_text(GOOD)
    done = rtrain("validate", "job.yaml", "--set", "scaling.workers=3", "-o", "json")
    assert json.loads(done.stdout)["job"]["scaling"]["workers"] == 3
    assert rtrain("validate", "job.yaml", "--set", "scaling.wrkers=3").returncode == 4


def test_the_schema_is_json_schema(rtrain):
    schema = json.loads(rtrain("schema").stdout)
    assert "entrypoint" in schema["properties"]


@pytest.mark.parametrize("cpus, code, verdict", [(1, 0, "feasible now"), (4, 8, "pending"), (5, 9, "infeasible")])
def test_plan_on_a_described_cluster(rtrain, tmp_path, cpus, code, verdict):
    (tmp_path / "job.yaml").write_text(GOOD + f"scaling: {{workers: 2, resources_per_worker: {{CPU: {cpus}}}}}\n")
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    done = rtrain("plan", "job.yaml", "--cluster", "cluster.yaml", "-o", "json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["verdict"]) == (code, verdict), done.stderr
    assert ("placement" in answer) == (code == 0)
    people = rtrain("plan", "job.yaml", "--cluster", "cluster.yaml")
    assert people.stdout.startswith(verdict)


def test_plan_names_every_problem_of_a_described_cluster_with_its_place(rtrain, tmp_path):
    (tmp_path / "job.yaml").write_text(GOOD)
    (tmp_path / "cluster.yaml").write_text(
        "nodes:\n"
        "  - {id: n1, resources: {CPU: 4}}\n"
        "  - id: n2\n"
        "    state: asleep\n"
        "    resources: {CPU: -1, memory: much}\n"
        "  - {resources: {CPU: 1}}\n"
        "  - {id: n4, resource: {CPU: 1}}\n"
        "allocations:\n"
        "  - {node: n3, resources: {CPU: 1}}\n"
    )
    done = rtrain("plan", "job.yaml", "--cluster", "cluster.yaml", "-o", "json")
    assert done.returncode == 4
    error = json.loads(done.stdout)["error"]
    assert error["message"] == "cluster.yaml has 6 problems"
    places = [(problem["line"], problem["path"]) for problem in error["problems"]]
    assert places == [
        (4, "nodes[1].state"),
        (5, "nodes[1].resources.CPU"),
        (5, "nodes[1].resources.memory"),
        (6, "nodes[2]"),
        (7, "nodes[3].resource"),
        (9, "allocations[0].node"),
    ]
    assert "nodes[3].resource: unknown field; did you mean resources?" in done.stderr
    assert "cluster.yaml:4:12: error: nodes[1].state: node n2: state" in done.stderr and "^" in done.stderr


def test_completion_is_a_script_for_shells_and_a_document_where_that_is_asked_for(rtrain):
    script = rtrain("completion", "bash").stdout
    assert json.loads(rtrain("completion", "bash", "-o", "json").stdout) == {
        "schema_version": 1,
        "shell": "bash",
        "script": script,
    }
    assert rtrain("completion", "bash", RTRAIN_OUTPUT="json").stdout == script


def test_the_page_of_the_job_spec_shows_every_field_and_is_valid(rtrain, tmp_path):
    page = (ROOT / "docs" / "job-spec.md").read_text()
    shown = page.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "job.yaml").write_text(shown)
    done = rtrain("validate", "job.yaml")
    assert done.returncode == 0, done.stderr
    for name, field in json.loads(rtrain("schema").stdout)["properties"].items():
        assert name == "driver" or f"{name}:" in shown, f"{name} is missing"  # `driver` is set by `submit train.py`
        for inner in field.get("properties", {}):
            assert f"{inner}:" in shown, f"{name}.{inner} is missing"


def test_plan_answers_cases_as_they_come(rtrain):
    case = {
        "nodes": [{"id": "a", "resources": {"CPU": 0.0003}}],
        "request": {"strategy": "PACK", "bundles": [{"CPU": 0.0001}] * 3},
    }
    env = environment("/nonexistent")
    streaming = subprocess.Popen(
        [RTRAIN, "plan", "--cases", "-", "-o", "jsonl"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    for number in range(3):  # writes each case after the answer to the previous one
        streaming.stdin.write(json.dumps({"id": str(number), **case}) + "\n")
        streaming.stdin.flush()
        answer = json.loads(streaming.stdout.readline())
        assert (answer["id"], answer["verdict"]) == (str(number), "feasible now")
    streaming.stdin.write("nonsense\n")
    streaming.stdin.close()
    assert json.loads(streaming.stdout.readline())["verdict"] == "invalid"
    assert streaming.wait(20) == 0
    streaming.stdout.close()


def test_completion_knows_verbs_flags_and_choices(rtrain):
    def complete(*words):
        return rtrain("__complete", "--", *words).stdout.split()

    assert "submit" in complete("sub")
    assert complete("head", "res") == ["restore", "restore-backup"]
    assert "--follow" in complete("logs", "x", "--f")
    assert complete("runs", "-o", "j") == ["json", "jsonl"]
    assert complete("describe", "") == []  # without a cluster there are neither names nor an error
    for shell in ("bash", "zsh", "fish"):
        assert "rtrain __complete" in rtrain("completion", shell).stdout
    assert subprocess.run(["bash", "-n"], input=rtrain("completion", "bash").stdout, text=True).returncode == 0
    assert rtrain("completion", "tcsh").returncode == 2


SHELLS = {  # each script completes "rtrain head restore-"; $SCRIPT is the completion's file
    "bash": ["bash", "--norc", "-c", 'source "$SCRIPT"; COMP_WORDS=(rtrain head restore-); COMP_CWORD=2; _rtrain; echo "${COMPREPLY[@]}"'],
    "zsh": ["zsh", "-f", "-c",
            'compdef() { }; source "$SCRIPT"; compadd() { print -l -- "${(@P)2}" }; words=(rtrain head restore-); CURRENT=3; _rtrain'],
    "fish": ["fish", "--no-config", "-c", 'source "$SCRIPT"; complete -C "rtrain head restore-"'],
}  # fmt: skip


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_works_in_the_shell_itself(rtrain, tmp_path, shell):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed here")
    script = tmp_path / "script"
    script.write_text(rtrain("completion", shell).stdout)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "rtrain").symlink_to(pathlib.Path(RTRAIN).resolve())
    env = {**os.environ, "SCRIPT": str(script), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(SHELLS[shell], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["restore-backup"], done.stderr


def test_colour_only_where_it_was_asked_for(rtrain, tmp_path):
    assert "\x1b" not in rtrain("sumbit").stderr
    assert "\x1b[31m" in rtrain("doctor", "--color=always", NO_COLOR="").stdout
    assert "\x1b" not in rtrain("doctor").stdout


def test_contexts_are_added_used_shown_and_removed(rtrain, tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n")
    add = ["context", "add", "lab", "--address", "lab:7433", "--token", "rtu1.abc.topsecret", "--ca", ca]
    assert rtrain(*add).returncode == 0
    assert rtrain(*add).returncode == 7
    assert (tmp_path / "config.yaml").stat().st_mode & 0o777 == 0o600
    assert rtrain("context", "list", "-o", "name").stdout == "lab\n"
    for words in (["context", "show", "lab", "-o", "json"], ["context", "list", "-o", "wide"], ["config", "show", "--origin"]):
        assert "topsecret" not in rtrain(*words).stdout
    assert rtrain("context", "use", "lba").returncode == 3
    assert 'did you mean "lab"?' in rtrain("context", "use", "lba").stderr
    assert rtrain("context", "use", "lab").returncode == 0
    shown = {
        row["name"]: row
        for row in json.loads(rtrain("config", "show", "--origin", "-o", "json", RTRAIN_ADDRESS="else:1").stdout)["items"]
    }
    assert shown["address"]["value"] == "else:1" and "RTRAIN_ADDRESS" in shown["address"]["origin"]
    assert shown["token"]["origin"].endswith("config.yaml")
    assert rtrain("context", "remove", "lab").returncode == 2  # without a terminal the removal needs --yes or --dry-run
    assert rtrain("context", "remove", "lab", "--dry-run").returncode == 0
    assert rtrain("context", "remove", "lab", "--yes").returncode == 0
    assert json.loads(rtrain("context", "list", "-o", "json").stdout)["items"] == []


def test_a_broken_configuration_is_named_with_its_line(rtrain, tmp_path):
    (tmp_path / "config.yaml").write_text("current: a\ncurrent: b\n")
    done = rtrain("runs")
    assert done.returncode == 4
    assert "config.yaml:2" in done.stderr
    assert rtrain("version").returncode == 0


def test_storage_gc_leaves_what_is_no_run_alone(rtrain, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "precious").write_text("x")
    done = rtrain("storage", "gc", tmp_path, "-o", "json", "--yes")
    assert done.returncode == 0 and json.loads(done.stdout)["items"] == []
    assert (tmp_path / "data" / "precious").exists()
    assert rtrain("storage", "gc", tmp_path / "none").returncode == 3


def test_restore_of_what_is_no_run_says_so(rtrain, tmp_path):
    done = rtrain("restore", pathlib.Path(tmp_path) / "nothing")
    assert done.returncode == 3
    assert os.fspath(tmp_path) in done.stderr


def test_links_and_special_files_that_stay_behind_are_named_once(rtrain, tmp_path):
    (tmp_path / "app" / ".git").mkdir(parents=True)
    (tmp_path / "app" / "a.py").write_text("a")
    (tmp_path / "app" / "inner").symlink_to("a.py")
    (tmp_path / "app" / "data").symlink_to("/etc")
    os.mkfifo(tmp_path / "app" / "pipe")
    (tmp_path / "job.yaml").write_text("version: 1\nname: fine\nentrypoint: /bin/true\nworking_dir: app\n")
    done = rtrain("submit", "job.yaml", "--dry-run")
    assert done.returncode == 0 and done.stderr.count("left out: ") == 1, done
    assert f"left out: data -> /etc leads out of {tmp_path / 'app'}; pipe is a FIFO. Give the program" in done.stderr


@pytest.mark.parametrize(
    ("entrypoint", "text"),
    [
        ("python train.py", "entrypoint: there is no file train.py in"),
        ("[python3, pkg/train.py, --lr, '1']", "entrypoint: there is no file pkg/train.py in"),
        ("./missing.sh", "entrypoint: there is no file ./missing.sh in"),
        ("./plain.sh 3", "entrypoint: ./plain.sh is not executable"),
        ("bash missing.sh", "entrypoint: there is no file missing.sh in"),
        ("./windows.sh", r"the first line of ./windows.sh ends with \r\n"),
    ],
)
def test_an_entrypoint_that_cannot_start_is_refused_with_its_line(rtrain, tmp_path, entrypoint, text):
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    (tmp_path / "windows.sh").write_bytes(b"#!/bin/sh\r\necho\r\n")
    (tmp_path / "windows.sh").chmod(0o755)
    (tmp_path / "job.yaml").write_text(f"version: 1\nworking_dir: .\nentrypoint: {entrypoint}\n")
    done = rtrain("validate", "job.yaml")
    assert done.returncode == 4, done.stdout
    assert "job.yaml:3: " in done.stderr
    assert text in done.stderr
    assert "next: " in done.stderr


@pytest.mark.parametrize(
    "lines",
    [
        "entrypoint: cd src && python train.py",
        "entrypoint: python -m pkg.train",
        "entrypoint: python /opt/train.py",
        "entrypoint: python train.py\nworking_dir: null",
        "entrypoint: python train.py\nsetup: git clone somewhere",
        "entrypoint: $HOME/run.sh",
        "entrypoint: [python, there.py]",
    ],
)
def test_an_entrypoint_that_may_start_is_valid(rtrain, tmp_path, lines):
    (tmp_path / "there.py").write_text("")
    (tmp_path / "job.yaml").write_text(f"version: 1\n{lines}\n")
    done = rtrain("validate", "job.yaml")
    assert done.returncode == 0, done.stderr

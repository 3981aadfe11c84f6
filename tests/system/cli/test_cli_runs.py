"""Tests the verbs about runs against a real head, two real agents and real jobs."""

import json
import os
import re
import signal
import subprocess

import pytest
from jobs_on_disk import JOBS, write_job
from local_cluster import RTRAIN, LocalCluster, wait_for


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("cluster") / "c", nodes=2, resources="CPU=2")
    yield made
    made.stop()


def job(folder, name, script, workers=1, **fields):
    return write_job(folder, name, ["sh", "-c", script], workers, **fields)


def follow(cluster, *arguments):
    return subprocess.Popen([RTRAIN, *arguments], env=cluster.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_job_is_submitted_listed_described_and_its_lines_are_read(cluster, tmp_path):
    path = job(tmp_path, "first", 'echo "hello of $RANK"; echo trouble >&2', workers=2, labels={"team": "nlp"})
    run = cluster.json("submit", path)
    assert run["schema_version"] == 1 and run["name"] == "first"
    cluster.wait_state("first", "SUCCEEDED", "FAILED")
    facts = cluster.json("describe", "first")
    assert facts["state"] == "SUCCEEDED", facts["reason"]
    assert [worker["rank"] for worker in facts["attempt_list"][0]["workers"]] == [0, 1]
    people = cluster.rtrain("describe", "first")
    assert "SUCCEEDED" in people and "team=nlp" in people and "ATT" in people
    assert run["run_id"] in cluster.rtrain("runs", "--all", "-o", "wide")
    assert "first" in cluster.rtrain("runs", "--all", "-o", "name").split()
    lines = cluster.rtrain("logs", "first", "--rank", "all")
    assert {"rank 0 | hello of 0", "rank 1 | hello of 1"} <= set(lines.splitlines())
    dated = cluster.rtrain("logs", "first", "--rank", "0", "--stream", "out", "--timestamps")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z hello of 0\n", dated), dated


def test_logs_are_chosen_by_rank_stream_pattern_and_number(cluster, tmp_path):
    cluster.rtrain(
        "submit", job(tmp_path, "lines", 'for i in 1 2 3 4 5; do echo "line $i of $RANK"; done; echo oops >&2', workers=2)
    )
    cluster.wait_state("lines", "SUCCEEDED", "FAILED")
    assert cluster.rtrain("logs", "lines", "--rank", "1", "--stream", "out").splitlines() == [
        f"line {i} of 1" for i in range(1, 6)
    ]
    assert cluster.rtrain("logs", "lines", "--rank", "0", "--stream", "err") == "oops\n"
    assert cluster.rtrain("logs", "lines", "--rank", "0", "--grep", "[24] of").splitlines() == ["line 2 of 0", "line 4 of 0"]
    assert cluster.rtrain("logs", "lines", "--rank", "0", "--stream", "out", "--tail", "2").splitlines() == [
        "line 4 of 0",
        "line 5 of 0",
    ]
    assert len(cluster.rtrain("logs", "lines", "--rank", "0-1", "--attempt", "1", "--since", "1h").splitlines()) == 12
    records = [
        json.loads(line) for line in cluster.rtrain("logs", "lines", "--rank", "0", "--stream", "out", "-o", "jsonl").splitlines()
    ]
    assert records[0]["line"] == "line 1 of 0" and records[0]["rank"] == 0
    whole = cluster.json("logs", "lines", "--rank", "0", "--stream", "out", "--grep", "[24] of")
    assert (whole["schema_version"], [one["line"] for one in whole["items"]]) == (1, ["line 2 of 0", "line 4 of 0"])
    assert cluster.json("logs", "lines", "--rank", "7")["items"] == []
    followed = cluster.rtrain("logs", "lines", "-f", "--rank", "0", "--stream", "out", "-o", "json").splitlines()
    assert [json.loads(line)["line"] for line in followed] == [f"line {i} of 0" for i in range(1, 6)]
    for wrong in (["--rank", "zero"], ["--attempt", "x"], ["--grep", "("]):
        assert cluster.run("logs", "lines", *wrong).returncode == 2
    assert cluster.run("logs", "no-such-run").returncode == 3


def test_what_was_asked_for_and_is_not_there_is_said(cluster, tmp_path):
    cluster.rtrain("submit", job(tmp_path, "short", "echo one"))
    cluster.wait_state("short", "SUCCEEDED")
    empty = cluster.run("logs", "short", "--rank", "9")
    assert (empty.returncode, empty.stdout) == (0, "") and "no line with --rank 9: it has 1 attempt, and rank 0" in empty.stderr
    refused = cluster.run("token", "create", "--user", "eve\nadmin")
    assert refused.returncode == 2 and "letters, digits" in refused.stderr


def test_fields_are_set_at_submit(cluster, tmp_path):
    path = job(tmp_path, "changed", 'echo "$COLOUR of $WORLD_SIZE"')
    done = cluster.run("submit", path, "--set", "env.COLOUR=blue", "--set", "scaling.workers=2", "--set", "name=set-here", "-f")
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == ["rank 0 | blue of 2", "rank 1 | blue of 2"], done.stderr
    assert cluster.json("describe", "set-here")["job"]["env"] == {"COLOUR": "blue"}
    wrong = cluster.run("submit", path, "--set", "scaling.wrkers=2")
    assert wrong.returncode == 4 and "workers" in wrong.stderr


def test_terminal_escapes_in_lines_are_shown_not_obeyed(cluster, tmp_path):
    cluster.rtrain("submit", job(tmp_path, "escapes", r"printf '\033[31mred\033[0m\n'"))
    cluster.wait_state("escapes", "SUCCEEDED", "FAILED")
    assert cluster.rtrain("logs", "escapes") == "\\x1b[31mred\\x1b[0m\n"


def test_submit_f_prints_the_lines_and_takes_the_result_as_its_exit_code(cluster, tmp_path):
    done = cluster.run("submit", job(tmp_path, "followed", "echo one; echo two"), "-f")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n"), done.stderr
    assert "SUCCEEDED" in done.stderr
    failing = job(tmp_path, "failing", "echo before; exit 7")
    done = cluster.run("submit", failing, "-f")
    assert (done.returncode, done.stdout) == (1, "before\n")
    assert cluster.run("submit", failing, "-f", "--new", "--propagate-exit").returncode == 7
    first = cluster.json("describe", "failing")["attempt_list"][0]["first_failure"]
    assert first["rank"] == 0
    assert "First failure, attempt 1: rank 0" in cluster.rtrain("describe", "failing")
    assert cluster.rtrain("logs", "failing", "--rank", "failed") == "before\n"


def test_ctrl_c_detaches_says_so_and_leaves_the_run_alone(cluster, tmp_path):
    path = job(tmp_path, "left", "echo started; exec tail -f /dev/null")
    cluster.rtrain("submit", path)
    following = follow(cluster, "logs", "left", "-f")
    assert following.stdout.readline() == "started\n"
    following.send_signal(signal.SIGINT)
    _, talk = following.communicate(timeout=20)
    assert following.returncode == 130
    assert "rtrain stop left" in talk
    assert cluster.json("describe", "left")["state"] == "RUNNING"
    stopped = cluster.json("stop", "left", "--wait", "--timeout", "60s")
    assert stopped["state"] == "STOPPED"
    assert cluster.run("stop", "left").returncode == 0  # again: unchanged


def test_who_follows_or_describes_a_run_that_hangs_is_told_which_ranks_have_not_come(cluster, tmp_path):
    cluster.rtrain("submit", write_job(tmp_path, "stuck", ["python", str(JOBS / "hangs.py")], workers=2))
    early = follow(cluster, "logs", "stuck", "-f")
    notices = wait_for(
        "the notice",
        lambda: [one for one in cluster.json("events", "--run", "stuck")["items"] if one["kind"] == "Notice"],
        seconds=90,
        pause=0.5,
    )
    text = notices[0]["text"]
    assert re.fullmatch(
        r"`report` was not called by all 2 workers: ranks \[1\] have not come for 3\d\.\d s \(rank 0 waits, report 2\)", text
    ), text
    assert cluster.json("describe", "stuck")["notice"]["text"] == text
    shown = [line for line in cluster.rtrain("describe", "stuck").splitlines() if line.startswith("notice")]
    assert len(shown) == 1 and shown[0].endswith(f", {notices[0]['node']}: {text}"), shown
    late = follow(cluster, "logs", "stuck", "-f")
    for following in (early, late):
        assert following.stderr.readline() == f"rtrain: {text}\n"
    cluster.rtrain("stop", "stuck", "--wait")
    for following in (early, late):
        _, rest = following.communicate(timeout=20)
        assert following.returncode == 0 and text not in rest and "STOPPED" in rest, rest
    assert cluster.json("describe", "stuck")["notice"] is None
    assert text not in cluster.run("logs", "stuck", "-f").stderr


def test_a_taken_name_is_a_conflict_unless_a_new_one_is_asked_for(cluster, tmp_path):
    path = job(tmp_path, "taken", "true")
    cluster.rtrain("submit", path)
    cluster.wait_state("taken", "SUCCEEDED", "FAILED")
    done = cluster.run("submit", path, "-o", "json")
    assert done.returncode == 7
    assert json.loads(done.stdout)["error"]["code"] == "conflict"
    assert cluster.json("submit", path, "--new")["name"] == "taken-2"
    assert cluster.run("submit", path, "--new", "--resume").returncode == 2


def test_a_dry_run_sends_nothing_and_tells_what_it_would(cluster, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print('hi')\n")
    path = write_job(tmp_path, "dry", "true", working_dir="code")
    plan = cluster.json("submit", path, "--dry-run")
    assert plan["verdict"] == "feasible now" and plan["code"]["files"] == 1
    assert cluster.run("describe", "dry").returncode == 3


def test_code_travels_with_the_job(cluster, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "say.sh").write_text("echo carried\n")
    done = cluster.run("submit", write_job(tmp_path, "carried", ["sh", "say.sh"], working_dir="code"), "-f")
    assert (done.returncode, done.stdout) == (0, "carried\n"), done.stderr


def test_what_can_never_be_placed_waits_loudly_or_is_refused(cluster, tmp_path):
    cluster.rtrain("submit", job(tmp_path, "huge", "true", scaling={"resources_per_worker": {"CPU": 64}}))
    explained = cluster.json("explain", "huge")
    assert explained["state"] == "QUEUED" and {reason["node"] for reason in explained["reasons"]} == {"node-1", "node-2"}
    assert "2 nodes considered" in cluster.rtrain("explain", "huge")
    waiting = cluster.json("queue")["items"]
    assert [entry["name"] for entry in waiting] == ["huge"]
    assert "huge" in cluster.rtrain("queue")
    assert cluster.run("plan", tmp_path / "huge.yaml").returncode == 9
    refused = job(tmp_path, "refused", "true", scaling={"resources_per_worker": {"CPU": 64}, "wait_for_nodes": False})
    assert cluster.run("submit", refused).returncode == 9
    cluster.rtrain("stop", "huge", "--wait")


def test_explain_names_the_line_of_the_spec_that_stands_in_the_way(cluster, tmp_path):
    text = "version: 1\nname: picky\nentrypoint: 'true'\nscaling:\n  workers: 1\n  label_selector: {zone: mars}\n  exclude_nodes: [node-2]\n"
    (tmp_path / "picky.yaml").write_text(text)
    cluster.rtrain("submit", tmp_path / "picky.yaml")
    explained = cluster.rtrain("explain", "picky")
    assert "excluded by the job" in explained and "zone = mars" in explained, explained
    assert "picky.yaml:6" in explained or "picky.yaml:7" in explained, explained
    cluster.rtrain("stop", "picky", "--wait")


def test_what_the_head_refuses_of_a_driver_is_said_in_the_heads_own_words(cluster, tmp_path):
    (tmp_path / "drive.py").write_text("print('driven')\n")
    cluster.rtrain("submit", job(tmp_path, "of-another", "true"))
    cluster.wait_state("of-another", "SUCCEEDED", "FAILED")
    for flags, code, words in [
        (["--set", "queue=nope"], 4, 'queue: there is no queue "nope"'),
        (["--set", "name=of-another"], 7, "there is a run 'of-another'"),
        (["--after", "nosuch"], 3, "after: "),
        (["--array", "8-1"], 4, "begins above its end"),
    ]:
        refused = cluster.run("submit", *flags, tmp_path / "drive.py")
        assert refused.returncode == code and words in refused.stderr, (flags, refused.returncode, refused.stderr)
        assert "exception" not in refused.stderr, refused.stderr


def test_plan_against_the_live_cluster(cluster, tmp_path):
    answer = cluster.json("plan", job(tmp_path, "planned", "true", workers=2))
    assert answer["verdict"] == "feasible now" and set(answer["placement"]) == {"0", "1"}


def test_events_are_listed_and_followed(cluster, tmp_path):
    following = follow(cluster, "events", "-f", "--run", "eventful", "-o", "jsonl")
    assert following.wait(20) == 3  # the run does not exist yet
    following.communicate()
    cluster.rtrain("submit", job(tmp_path, "eventful", "true"))
    cluster.wait_state("eventful", "SUCCEEDED", "FAILED")
    items = cluster.json("events", "--run", "eventful")["items"]
    assert items and all(event["run_name"] == "eventful" for event in items)
    assert "eventful" in cluster.rtrain("events", "--tail", "20")
    following = follow(cluster, "events", "-f", "--after", str(items[0]["id"]), "-o", "jsonl")
    assert json.loads(following.stdout.readline())["id"] > items[0]["id"]
    following.send_signal(signal.SIGINT)
    following.communicate(timeout=20)
    assert following.returncode == 130


def test_a_run_that_lives_is_not_removed_and_one_that_ended_is(cluster, tmp_path):
    cluster.rtrain("submit", job(tmp_path, "alive", "exec tail -f /dev/null"))
    cluster.wait_state("alive", "RUNNING")
    assert cluster.run("runs", "rm", "alive", "--yes").returncode == 7
    cluster.rtrain("stop", "alive", "--wait")
    assert cluster.run("runs", "rm", "alive").returncode == 2  # without a terminal the removal needs --yes
    assert "--yes" in cluster.run("runs", "rm", "alive").stderr
    cluster.rtrain("runs", "rm", "alive", "--dry-run")
    assert cluster.json("describe", "alive")["state"] == "STOPPED"
    cluster.rtrain("runs", "rm", "alive", "--files", "--yes")
    assert cluster.run("describe", "alive").returncode == 3


def test_files_that_a_resumed_run_uses_are_not_removed_with_the_run_before(cluster, tmp_path):
    spec = job(tmp_path, "twice", "exec tail -f /dev/null")
    cluster.rtrain("submit", spec)
    cluster.wait_state("twice", "RUNNING")
    first = cluster.json("describe", "twice")["run_id"]
    cluster.rtrain("stop", "twice", "--wait")
    cluster.rtrain("submit", spec, "--resume")
    cluster.wait_state("twice", "RUNNING")
    second = cluster.json("describe", "twice")["run_id"]
    refused = cluster.run("runs", "rm", first, "--files", "--yes")
    assert refused.returncode == 7 and second in refused.stderr and "without --files" in refused.stderr
    cluster.rtrain("stop", "twice", "--wait")
    assert cluster.run("runs", "rm", first, "--files", "--yes").returncode == 7
    cluster.rtrain("runs", "rm", first, "--yes")
    assert cluster.json("describe", "twice")["run_id"] == second
    cluster.rtrain("runs", "rm", second, "--files", "--yes")
    assert cluster.run("describe", "twice").returncode == 3


def test_completion_offers_live_names(cluster):
    def complete(*words):
        return subprocess.run(
            [RTRAIN, "__complete", "--", *words], env=cluster.env, capture_output=True, text=True
        ).stdout.split()

    assert complete("describe", "node-") == ["node-1", "node-2"]
    assert "first" in complete("logs", "fir")


def test_watch_prints_anew_until_ctrl_c(cluster):
    watching = follow(cluster, "nodes", "--watch", "--interval", "100ms", "-o", "name")
    assert {watching.stdout.readline().strip(), watching.stdout.readline().strip()} == {"node-1", "node-2"}
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=20)
    assert watching.returncode == 130


def test_followed_lines_go_on_over_a_killed_head(cluster, tmp_path):
    flag = tmp_path / "flag"
    cluster.rtrain("submit", job(tmp_path, "bridged", f"echo one; while [ ! -e {flag} ]; do sleep 0.1; done; echo two"))
    following = follow(cluster, "logs", "bridged", "-f")
    assert following.stdout.readline() == "one\n"
    cluster.kill("head")
    cluster.restart("head")
    wait_for("the head", lambda: cluster.run("status").returncode == 0)
    flag.touch()
    rest, talk = following.communicate(timeout=60)
    assert (following.returncode, rest) == (0, "two\n"), talk
    assert "SUCCEEDED" in talk


def test_a_wrong_token_is_6_and_a_wrong_context_3(cluster):
    env = {**cluster.env, "RTRAIN_TOKEN": "rtu1.nobody.nothing"}
    assert subprocess.run([RTRAIN, "runs"], env=env, capture_output=True).returncode == 6
    assert cluster.run("runs", "--context", "nowhere").returncode == 3
    assert os.path.exists(cluster.folder / "config.yaml")


def test_what_a_spec_asks_for_and_this_version_does_not_do_is_said_beside_the_run(cluster, tmp_path):
    cluster.rtrain(
        "submit", job(tmp_path, "asks", "true", python={"preload": ["math"]}, scaling={"trainer_resources": {"CPU": 1}})
    )
    warnings = "\n".join(cluster.json("describe", "asks")["warnings"])
    assert "python.preload is carried out on nodes with warm starts" in warnings
    assert "scaling.trainer_resources is not carried out" in warnings
    cluster.rtrain("submit", job(tmp_path, "asks-nothing", "true"))
    assert not [w for w in cluster.json("describe", "asks-nothing")["warnings"] if "not carried out" in w]


def beside(folder, **fields):
    """Writes a job and its program into one folder. The spec has a working_dir only if `fields` contain one."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text("import os, glob; print('files', sorted(glob.glob('*') + glob.glob('.*')))")
    spec = {"version": 1, "name": folder.name, "entrypoint": ["python3", "train.py"], **fields}
    (folder / "job.yaml").write_text(json.dumps(spec))
    return folder / "job.yaml"


def test_a_job_beside_its_program_takes_the_folder_along_without_secrets(cluster, tmp_path):
    path = beside(tmp_path / "beside")
    (path.parent / ".env").write_text("TOKEN=abc")
    (path.parent / "server.key").write_text("private")
    (path.parent / ".ssh").mkdir()
    (path.parent / ".ssh" / "id_rsa").write_text("private")
    printed = cluster.run("submit", path)
    assert printed.returncode == 0 and "travels along, since the entrypoint names train.py" in printed.stderr, printed.stderr
    assert "left out, for they may hold secrets: .env, .ssh, server.key" in printed.stderr, printed.stderr
    cluster.wait_state("beside", "SUCCEEDED", "FAILED")
    assert "files ['job.yaml', 'train.py']" in cluster.rtrain("logs", "beside", "--rank", "0", "--stream", "out")

    whole = beside(tmp_path / "beside", name="named", working_dir=".")
    cluster.rtrain("submit", whole)
    cluster.wait_state("named", "SUCCEEDED", "FAILED")
    assert "'.env', '.ssh'" in cluster.rtrain("logs", "named", "--rank", "0", "--stream", "out")

    shell = beside(tmp_path / "beside", name="shell", entrypoint="python3 train.py --lr 1")
    cluster.rtrain("submit", shell)
    cluster.wait_state("shell", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "shell")["state"] == "SUCCEEDED"

    (path.parent / "sub").mkdir()
    (path.parent / "sub" / "main one.py").write_text("print('it ran')")
    spelled = {
        "lines": "set -e\npython3 train.py\n",
        "quoted": "cd .; python3 'train.py'; true",
        "spaces": ["python3", "sub/main one.py"],
        "module": ["python3", "-m", "train"],
    }
    for name, entrypoint in spelled.items():
        printed = cluster.run("submit", "--dry-run", beside(tmp_path / "beside", name=name, entrypoint=entrypoint))
        assert "travels along" in printed.stderr, (name, printed.stderr)
    above = beside(tmp_path / "beside" / "sub", entrypoint="python3 ../train.py")
    assert "travels along" not in cluster.run("submit", "--dry-run", above).stderr

    (path.parent / ".gitignore").write_text("train.py\n")
    printed = cluster.run("submit", beside(tmp_path / "beside"), "--dry-run")
    assert printed.returncode != 0 and "names train.py, which does not travel along" in printed.stderr, printed.stderr


def test_a_folder_that_nobody_named_stays_where_it_is_when_it_is_home_too_large_or_not_wanted(cluster, tmp_path):
    nothing = beside(tmp_path / "nothing", working_dir=None)
    assert "travels" not in cluster.run("submit", nothing).stderr
    cluster.wait_state("nothing", "SUCCEEDED", "FAILED")
    assert cluster.json("describe", "nothing")["state"] == "FAILED"
    assert "can't open file" in cluster.rtrain("logs", "nothing", "--rank", "0")

    large = beside(tmp_path / "large")
    with open(tmp_path / "large" / "data.bin", "wb") as file:
        file.truncate(101 << 20)
    refused = cluster.run("submit", large)
    assert refused.returncode != 0 and "more than 100 MiB; its biggest file so far is data.bin" in refused.stderr, refused.stderr
    assert "working_dir: ." in refused.stderr

    home = beside(tmp_path / "home")
    refused = subprocess.run(
        [RTRAIN, "submit", home], env={**cluster.env, "HOME": str(tmp_path / "home")}, capture_output=True, text=True
    )
    assert refused.returncode == 4 and "which is your home directory or holds it" in refused.stderr, (
        refused.returncode,
        refused.stderr,
    )

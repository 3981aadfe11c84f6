"""A driver beside its run: prints, stop, Ctrl-C, a killed driver, two drivers."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
from cells import DEFINES
from local_cluster import wait_for
from rtrain import train
from rtrain._http import Conflict, Head, NotFound
from rtrain.train import Checkpoint, DataParallelTrainer, RunConfig, ScalingConfig


def test_the_driver_shows_ranks_nodes_and_prints_and_folds_what_is_the_same(cluster, capfd):
    def loop():
        rank = train.get_context().get_world_rank()
        train.collective.barrier()
        print("all say this")
        train.collective.barrier()
        print(f"only {rank} says this")

    DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD"),
        run_config=RunConfig(name=cluster.name("prints")),
    ).fit()
    out, err = capfd.readouterr()
    assert "(ranks 0-1, 2 nodes) all say this" in out
    assert out.count("all say this") == 1
    assert "(rank 1, node-" in out
    assert "only 1 says this" in out
    assert "world rank 0, local rank 0, node rank 0: node-" in err
    assert "(127.0.0.1), pid " in err
    assert "backend gloo, master 127.0.0.1" in err


@pytest.mark.parametrize("workers", [16, 17])
def test_the_driver_shows_up_to_16_ranks_and_of_more_the_first_alone(cluster, capfd, workers):
    def loop():
        print("all of us")
        print("from rank", train.get_context().get_world_rank())

    scaling = ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 0.1})
    DataParallelTrainer(loop, scaling_config=scaling, run_config=RunConfig(name=cluster.name("many"))).fit()
    ranks = [line.rsplit(" ", 1)[1] for line in capfd.readouterr().out.splitlines() if ") from rank " in line]
    assert sorted(map(int, ranks)) == (list(range(16)) if workers == 16 else [0])


def test_the_driver_says_what_agents_have_to_say_of_the_run_and_what_is_alike_once(cluster, tmp_path, capfd):
    def loop():
        rank = train.get_context().get_world_rank()
        for step in range(2):
            folder = tmp_path / f"rank-{rank}-{step}"
            folder.mkdir()
            # Both ranks report the file: one copy is left out, with a message.
            (folder / "same.txt").write_text(str(rank))
            train.report({"step": step}, Checkpoint.from_directory(folder))
        while not (tmp_path / "seen").exists():
            threading.Event().wait(0.05)

    def notices():
        texts = [one["text"] for one in cluster.json("events", "--run", name)["items"] if one["kind"] == "Notice"]
        return [text for text in texts if "'same.txt'" in text]

    name = cluster.name("told")
    scaling = ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD")
    trainer = DataParallelTrainer(loop, scaling_config=scaling, run_config=RunConfig(name=name))
    fit = threading.Thread(target=trainer.fit)
    fit.start()
    try:
        wait_for("the run", lambda: cluster.daemons.run("describe", name).returncode == 0)
        wait_for("both notices", lambda: len(notices()) == 2)
        assert cluster.json("describe", name)["notice"]["kind"] == "Notice"
    finally:
        (tmp_path / "seen").touch()
        fit.join()
    lines = [line for line in capfd.readouterr().err.splitlines() if "'same.txt'" in line]
    assert lines == [f"rtrain: {notices()[0]}"]


@pytest.mark.parametrize(
    "stop",
    [{"loss": 1000, "epoch": 3}, {"deep/epoch": 4}, lambda trial, metrics: metrics["epoch"] >= 3 and trial.startswith("stop-")],
    ids=["passed", "nested", "function"],
)
def test_stop_ends_every_rank_at_the_report_that_reaches_it(cluster, tmp_path, stop):
    def loop():
        rank = train.get_context().get_world_rank()
        for epoch in range(0, 200, 2):  # skips 3
            (tmp_path / f"rank-{rank}").write_text(str(epoch))
            metrics = {"epoch": epoch if rank == 0 else 0, "deep": {"epoch": epoch}}
            train.report(metrics, Checkpoint.from_dict({"epoch": epoch}) if rank == 0 else None)

    name = cluster.name("stop")
    result = DataParallelTrainer(
        loop, scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(name=name, stop=stop)
    ).fit()
    assert result.metrics == {"epoch": 4, "deep": {"epoch": 4}}
    assert result.checkpoint.to_dict() == {"epoch": 4}
    assert [(tmp_path / f"rank-{rank}").read_text() for rank in (0, 1)] == ["4", "4"]
    assert cluster.json("describe", name)["state"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("asked", "out", "err"),
    [
        (True, "stdout.log", "stderr.log"),
        ("both.txt", "both.txt", "both.txt"),
        (("mine.txt", "errors.txt"), "mine.txt", "errors.txt"),
    ],
    ids=["true", "name", "pair"],
)
def test_log_to_file_keeps_what_each_rank_prints(cluster, tmp_path, asked, out, err):
    def loop():
        import sys

        rank = train.get_context().get_world_rank()
        print("from rank", rank)
        print("trouble of", rank, file=sys.stderr)

    name = cluster.name("files")
    DataParallelTrainer(
        loop,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name=name, storage_path=tmp_path / "runs", log_to_file=asked),
    ).fit()
    logs = tmp_path / "runs" / name / "logs" / "attempt-000001"
    for rank in (0, 1):
        printed, wrong = f"from rank {rank}\n", f"trouble of {rank}\n"
        assert (logs / f"rank-{rank:05}-{out}").read_text() == (printed + wrong if out == err else printed)
        assert (logs / f"rank-{rank:05}-{err}").read_text() == (printed + wrong if out == err else wrong)


def test_log_to_file_reaches_a_run_directory_that_only_the_head_has_even_of_a_rank_that_is_killed(cluster):
    def loop():
        import os
        import signal
        import sys

        rank = train.get_context().get_world_rank()
        print("rank", rank)
        print("trouble", file=sys.stderr)
        train.collective.barrier()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        train.collective.barrier()

    name = cluster.name("headlogs")
    scaling = ScalingConfig(num_workers=2, placement_strategy="STRICT_SPREAD")
    with pytest.raises(train.WorkerGroupError, match="signal 9"):
        DataParallelTrainer(loop, scaling_config=scaling, run_config=RunConfig(name=name, log_to_file="all.txt")).fit()
    logs = cluster.daemons.folder / "head" / "storage" / name / "logs" / "attempt-000001"
    for rank in (0, 1):
        assert (logs / f"rank-{rank:05}-all.txt").read_text().splitlines()[:2] == [f"rank {rank}", "trouble"]


def test_log_to_file_takes_names_and_no_paths():
    assert RunConfig(log_to_file=True).log_to_file == ("stdout.log", "stderr.log")
    for wrong in ("../x", "..", ("a",), ("a", "b/c"), ("a", 3)):
        with pytest.raises(ValueError, match="log_to_file is"):
            RunConfig(log_to_file=wrong)


def test_worker_environment_and_names_of_the_run(cluster, monkeypatch):
    monkeypatch.setenv("RAY_TRAIN_SOMETHING", "7")

    def loop():
        import os

        context = train.get_context()
        return {
            "own": os.environ.get("OWN"),
            "given": os.environ.get("GIVEN"),
            "theirs": os.environ.get("RAY_TRAIN_SOMETHING"),
            "names": {context.get_trial_name(), context.get_experiment_name()},
            "metadata": context.get_metadata(),
        }

    name = cluster.name("env")
    config = RunConfig(name=name, env={"OWN": "1"}, worker_runtime_env={"env_vars": {"GIVEN": "2"}})
    value = DataParallelTrainer(loop, run_config=config, metadata={"by": "me"}).fit().return_value
    assert value == {"own": "1", "given": "2", "theirs": "7", "names": {name}, "metadata": {"by": "me"}}


def test_variables_of_init_reach_runs_and_remote_calls_whose_own_win(cluster, driver):
    script = f"""
        import os
        import rtrain
        from rtrain.train import DataParallelTrainer, RunConfig

        def seen():
            return os.environ.get("OF_INIT"), os.environ.get("OF_BOTH")

        rtrain.init(runtime_env={{"env_vars": {{"OF_INIT": 1, "OF_BOTH": 1}}}})
        own = {{"env_vars": {{"OF_BOTH": "2"}}}}
        config = RunConfig(name={cluster.name("init")!r}, worker_runtime_env=own)
        print(DataParallelTrainer(seen, run_config=config).fit().return_value)
        print(rtrain.get([rtrain.remote(seen).remote(), rtrain.remote(runtime_env=own)(seen).remote()]))
        """
    process = driver(script)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.splitlines()[-2:] == ["('1', '2')", "[('1', '1'), ('1', '2')]"]


WAITS = """
    import pathlib, threading
    from rtrain import train
    from rtrain.train import DataParallelTrainer, RunConfig
    def loop(config):
        train.report({{"step": 1}})
        while not pathlib.Path(config["go"]).exists():
            threading.Event().wait(0.05)
        train.report({{"step": 2}})
    result = DataParallelTrainer(loop, train_loop_config={{"go": {go!r}}}, run_config=RunConfig(name={name!r})).fit()
    print("ended with", result.metrics)
    """


def reported(name):
    def asked():
        try:
            return Head.current().get(f"/v1/runs/{name}")["last_report"]
        except NotFound:
            return None

    return asked


def test_a_dead_driver_s_run_goes_on_and_is_joined_again(cluster, driver, tmp_path):
    name, go = cluster.name("dies"), tmp_path / "go"
    first = driver(WAITS.format(name=name, go=str(go)))
    wait_for("a report", reported(name))
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert train.attach(name).state == "RUNNING"
    second = driver(WAITS.format(name=name, go=str(go)))
    with pytest.raises(Conflict, match="with another training function or config"):
        DataParallelTrainer(lambda: None, run_config=RunConfig(name=name)).fit()
    handle = train.attach(name)
    for line in second.stderr:
        if "this driver joins it" in line:
            break
    go.touch()
    assert handle.result().metrics == {"step": 2}
    out, err = second.communicate(timeout=240)
    assert "ended with {'step': 2}" in out, err
    with pytest.raises(NotFound):
        train.attach("nobody-s-run")


def test_what_a_script_writes_beside_itself_does_not_part_it_from_its_run(cluster, driver, tmp_path):
    name, go, folder = cluster.name("writes"), tmp_path / "go", tmp_path / "project-0"
    script = WAITS.format(name=name, go=str(go))
    first = driver(script)
    wait_for("a report", reported(name))
    first.send_signal(signal.SIGKILL)
    first.wait()
    (folder / "log.txt").write_text("as `python driver.py > log.txt` makes it\n")
    again = driver(script, into=folder)
    line_of_driver = next((line for line in again.stderr if "joins it" in line or "Error" in line or "Conflict" in line), "")
    assert "this driver joins it" in line_of_driver, again.stderr.read()
    other = driver(script, into=folder, helper="changed = True\n")
    _, err = other.communicate(timeout=240)
    assert other.returncode != 0 and "with another training function or config" in err
    go.touch()
    out, err = again.communicate(timeout=240)
    assert "ended with {'step': 2}" in out, err


def test_ctrl_c_stops_the_run(cluster, driver, tmp_path):
    name = cluster.name("interrupted")
    process = driver(WAITS.format(name=name, go=str(tmp_path / "never")))
    wait_for("a report", reported(name))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in err
    # The second sentence comes if the signal arrived before the driver had read the answer to its request.
    assert f"stopping {name}" in err or f"{name} is being stopped" in err
    assert cluster.json("describe", name)["state"] == "STOPPED"


INTERRUPTED = """
    import os, signal, threading
    from rtrain._http import Head
    from rtrain.train import DataParallelTrainer, RunConfig, UserCallback
    def loop():
        threading.Event().wait()
    def interrupt(*_):
        os.kill(os.getpid(), signal.SIGINT)
    class Interrupts(UserCallback):
        before_run = interrupt
    post = Head.post
    def answered_too_late(head, path, *given):
        answer = post(head, path, *given)
        if path == "/v1/runs":
            interrupt()
        return answer
    callbacks = []
    {how}
    DataParallelTrainer(loop, run_config=RunConfig(name={name!r}, callbacks=callbacks)).fit()
    """


@pytest.mark.parametrize("how", ["callbacks.append(Interrupts())", "Head.post = answered_too_late"])
def test_ctrl_c_stops_a_run_that_is_not_followed_yet(cluster, driver, how):
    name = cluster.name("early")
    process = driver(INTERRUPTED.format(name=name, how=how))
    try:
        _, err = process.communicate(timeout=120)
        assert process.returncode != 0
        assert "KeyboardInterrupt" in err
        wait_for("its end", lambda: cluster.json("describe", name)["state"] == "STOPPED", 60)
        assert f"stopping {name}" in err or f"{name} is being stopped" in err
    finally:
        cluster.daemons.run("stop", name)


def test_cells_of_an_interactive_session_train_what_they_define_and_survive_an_interrupt(cluster, tmp_path):
    """No file has the source of these: functions, classes and lambdas of `__main__`, a closure, a module of the
    working directory.
    """
    (tmp_path / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    name = cluster.name("cell")
    cells = f"""{DEFINES}
result = DataParallelTrainer(make(3), train_loop_config={{"add": lambda value: value + 1}}).fit()
print("cell:", result.metrics["value"], result.return_value.weight, flush=True)
def endless():
    import threading
    print("it runs", flush=True)
    threading.Event().wait()

_ = DataParallelTrainer(endless, run_config=RunConfig(name="{name}")).fit()
print("cell:", train.attach("{name}").state, flush=True)
"""
    session = subprocess.Popen(
        [sys.executable, "-i", "-q"],
        cwd=tmp_path,
        env=cluster.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert session.stdin is not None and session.stdout is not None
    session.stdin.write(cells)
    session.stdin.close()
    shown = []
    for line in session.stdout:
        shown.append(line)
        if "it runs" in line:
            session.send_signal(signal.SIGINT)
    assert session.wait(240) == 0
    assert [line for line in shown if line.startswith("cell:")] == ["cell: 43 3\n", "cell: STOPPED\n"]


def test_ctrl_c_detaches_where_that_is_asked_for(cluster, driver, tmp_path):
    name, go = cluster.name("detached"), tmp_path / "go"
    script = 'import os; os.environ["RTRAIN_TRAIN_ON_INTERRUPT"] = "detach"\n' + WAITS.format(name=name, go=str(go)).replace(
        "\n    ", "\n"
    )
    process = driver(script)
    wait_for("a report", reported(name))
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=240)
    assert "detached" in err
    go.touch()
    assert train.attach(name).result().metrics == {"step": 2}


def test_a_stopped_run_says_so(cluster, tmp_path):
    def loop():
        threading.Event().wait(600)

    name = cluster.name("stopped")

    def stop():
        wait_for(
            "it to run",
            lambda: (
                cluster.json("runs")["items"]
                and any(r["name"] == name and r["state"] == "RUNNING" for r in cluster.json("runs")["items"])
            ),
        )
        train.attach(name).stop()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(train.TrainingStoppedError, match="the run was stopped"):
        DataParallelTrainer(loop, run_config=RunConfig(name=name)).fit()
    thread.join()


def test_while_queued_the_reason_is_said(cluster, capfd):
    name = cluster.name("queued")
    lines = []

    def all_lines():
        lines.append(capfd.readouterr().err)
        return "".join(lines)

    def cancel():
        wait_for("it to be queued", lambda: any(run["name"] == name for run in cluster.json("runs")["items"]))
        wait_for("the reason to be said", lambda: "QUEUED" in all_lines())
        train.attach(name).stop()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(train.TrainingStoppedError):
        DataParallelTrainer(
            lambda: None, scaling_config=ScalingConfig(resources_per_worker={"CPU": 500}), run_config=RunConfig(name=name)
        ).fit()
    thread.join()
    assert "QUEUED" in all_lines()


def test_what_no_node_could_ever_hold_is_said_at_once_and_refused_where_it_shall_not_wait(cluster, capfd):
    name = cluster.name("huge")
    errors = []

    def stop():
        try:
            wait_for("the verdict", lambda: errors.append(capfd.readouterr().err) or "COULD EVER HOLD IT" in "".join(errors))
        finally:
            train.attach(name).stop()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(train.TrainingStoppedError):
        DataParallelTrainer(
            lambda: None, scaling_config=ScalingConfig(resources_per_worker={"CPU": 500}), run_config=RunConfig(name=name)
        ).fit()
    thread.join()
    first = next(line for line in "".join(errors).splitlines() if "position 1 of 1" in line)
    assert "NO PRESENT NODES COULD EVER HOLD IT, it waits for nodes to join: " in first
    assert "with 8 CPU, a bundle needs 500. QUEUED" in first

    never = ScalingConfig(resources_per_worker={"CPU": 500}, wait_for_nodes=False)
    with pytest.raises(
        train.ControllerError, match="no present node could ever hold it: .* has 8 CPU, bundle needs 500"
    ) as failed:
        DataParallelTrainer(lambda: None, scaling_config=never, run_config=RunConfig(name=cluster.name("never"))).fit()
    assert isinstance(failed.value.controller_failure, train.InsufficientClusterResourcesError)


def test_a_queued_line_is_said_again_when_it_changes(cluster, capfd):
    name, other = cluster.name("waits"), cluster.name("ahead")
    needs = ScalingConfig(resources_per_worker={"CPU": 500})
    queue_lines = []

    def queued():
        queue_lines.extend(line for line in capfd.readouterr().err.splitlines() if "QUEUED" in line)
        return "".join(line.partition(" in queue")[0] for line in queue_lines)

    def change():
        try:
            wait_for("its first line", lambda: queued().endswith("position 1 of 1"))
            explained = f"/v1/runs/{name}/explain"
            first = [f"QUEUED {seconds}s" for seconds in range(3)]
            wait_for(
                "its time to be another one",
                lambda: not any(one in Head.current().get(explained)["headline"] for one in first),
            )
            job = {"version": 1, "name": other, "entrypoint": "true", "priority": 90}
            Head.current().post("/v1/runs", {"job": {**job, "scaling": needs.job()}, "key": other})
            wait_for("its second line", lambda: queued().endswith("position 2 of 2"))
            train.attach(other).stop()
            wait_for("its third line", lambda: queued().endswith("position 1 of 1"))
        finally:
            train.attach(name).stop()

    thread = threading.Thread(target=change)
    thread.start()
    with pytest.raises(train.TrainingStoppedError):
        DataParallelTrainer(lambda: None, scaling_config=needs, run_config=RunConfig(name=name)).fit()
    thread.join()
    queued()
    assert len(queue_lines) == 3, queue_lines  # once for each change, not once a second


def test_a_head_that_is_killed_and_comes_back_costs_the_driver_nothing(cluster, driver, tmp_path):
    name, go = cluster.name("headless"), tmp_path / "go"
    process = driver(WAITS.format(name=name, go=str(go)))
    wait_for("a report", reported(name))
    cluster.daemons.kill("head")
    go.touch()
    for line in process.stderr:
        if "cannot be reached" in line:
            break
    cluster.daemons.restart("head")
    out, err = process.communicate(timeout=240)
    assert "ended with {'step': 2}" in out, err
    assert "the head is back" in err

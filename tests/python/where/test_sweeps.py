"""A sweep whose driver is killed or interrupted, and a driver that restores it."""

from __future__ import annotations

import json
import pathlib
import signal

import pytest
from homes import Home, finish, processes_below, wait_for

SWEEP = """
import pathlib, sys, threading
import rtrain
from rtrain import train, tune

folder, mode = pathlib.Path(sys.argv[1]), sys.argv[2]

def count(config):
    log = pathlib.Path(config["folder"]) / f"trial-{config['n']}"
    checkpoint = tune.get_checkpoint()
    begun = checkpoint.metrics["step"] + 1 if checkpoint else 0
    with log.open("a") as out:
        out.write(f"from {begun}\\n")
    gate = pathlib.Path(config["folder"]) / "gate"
    for step in range(begun, 4):
        with train.checkpoint_dir() as directory:
            tune.report({"step": step, "n": config["n"]}, checkpoint=directory)
        if step == 1:
            train.flush()
            while config["n"] > 1 and not gate.exists():
                threading.Event().wait(0.02)

if mode == "local":
    rtrain.init(num_cpus=4, storage_path=folder / "storage")
if len(sys.argv) > 3:
    tuner = tune.Tuner.restore(sys.argv[3], count)
else:
    tuner = tune.Tuner(
        count,
        param_space={"n": tune.grid_search([0, 1, 2, 3]), "folder": str(folder)},
        tune_config=tune.TuneConfig(metric="step", mode="max"),
        run_config=tune.RunConfig(name="sweep", storage_path=folder / "storage"),
    )
grid = tuner.fit()
print("steps", [one.metrics["step"] for one in grid], "of", [one.config["n"] for one in grid])
print("errors", grid.num_errors, "kept", grid.get_best_result().checkpoint is not None)
print("rows", [len(one.all_metrics) for one in grid])
"""


def trials(home: Home) -> list[dict]:
    file = home.folder / "storage" / "sweep" / "sweep.json"
    return json.loads(file.read_text())["trials"] if file.is_file() else []


def two_wait_and_two_are_done(home: Home) -> bool:
    rows = trials(home)
    waiting = [one for one in rows if one["last_result"].get("step") == 1]
    return len(waiting) == 2 and [one["status"] for one in rows].count("TERMINATED") == 2


def begun(home: Home, number: int) -> list[str]:
    return (home.folder / f"trial-{number}").read_text().splitlines()


@pytest.mark.parametrize("mode", ["local", "cluster"])
def test_a_sweep_whose_driver_was_killed_goes_on_without_its_finished_trials(home: Home, mode: str) -> None:
    if mode == "cluster":
        home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--resources", "CPU=4")
    try:
        killed = home.start(SWEEP, str(home.folder), mode)
        wait_for("two trials to be done, two to wait", lambda: two_wait_and_two_are_done(home), 120)
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        if mode == "local":
            wait_for("its cluster to end", lambda: processes_below(home.folder) == [])
        (home.folder / "gate").touch()
        path = home.folder / "storage" / "sweep"
        out = home.script(SWEEP, str(home.folder), mode, str(path))
        assert "steps [3, 3, 3, 3] of [0, 1, 2, 3]" in out and "errors 0 kept True" in out, out
        assert begun(home, 0) == begun(home, 1) == ["from 0"]
        # The cluster of a killed local driver ends with it, so its trials resume from checkpoints. On another cluster
        # the trials continue undisturbed.
        assert begun(home, 2) == begun(home, 3) == (["from 0", "from 2"] if mode == "local" else ["from 0"])
        assert ("rows [4, 4, 4, 4]" if mode == "cluster" else "rows [4, 4, ") in out, out
        again = home.script(SWEEP, str(home.folder), mode, str(path))
        assert "steps [3, 3, 3, 3]" in again and begun(home, 0) == ["from 0"], again
    finally:
        if mode == "cluster":
            home.rtrain("down", "--yes")


def test_ctrl_c_stops_the_trials_and_says_how_to_go_on(home: Home) -> None:
    driver = home.start(SWEEP, str(home.folder), "local")
    wait_for("two trials to be done, two to wait", lambda: two_wait_and_two_are_done(home), 120)
    driver.send_signal(signal.SIGINT)
    output = finish(driver, -signal.SIGINT)  # as Python ends on SIGINT
    path = pathlib.Path(home.folder) / "storage" / "sweep"
    assert f"KeyboardInterrupt: the sweep was stopped; Tuner.restore({str(path)!r}, trainable) goes on with it" in output
    assert sorted(one["status"] for one in trials(home)) == ["PENDING", "PENDING", "TERMINATED", "TERMINATED"]
    (home.folder / "gate").touch()
    out = home.script(SWEEP, str(home.folder), "local", str(path))
    assert "steps [3, 3, 3, 3]" in out and begun(home, 2) == ["from 0", "from 2"], out

"""rtrain.init: a cluster that ends with the process, the current context, an address. No process remains afterwards."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import signal

from homes import BINARY, Home, finish, processes_below, wait_for

JOB = """
version: 1
name: sleeper
entrypoint: [sleep, "1000"]
scaling: {workers: 1}
"""


def test_a_local_cluster_ends_with_its_process(home: Home) -> None:
    out = home.script("""
        import os
        import rtrain
        assert not rtrain.is_initialized()
        info = rtrain.init(num_cpus=3)
        assert rtrain.is_initialized() and info.local
        from rtrain._http import Head
        print(Head.current().get("/v1/status")["cpus"]["total"], info.storage)
        rtrain.shutdown()
        assert not rtrain.is_initialized() and "RTRAIN_CONFIG" not in os.environ
        rtrain.shutdown()
        rtrain.init(num_cpus=1)
        print(Head.current().get("/v1/status")["cpus"]["total"])
    """)
    assert out.split() == ["3", str(home.folder / "rtrain_results"), "1"]
    assert processes_below(home.folder) == []
    assert list((home.folder / "tmp").iterdir()) == []


def test_workers_of_a_local_cluster_have_the_drivers_environment(home: Home) -> None:
    script = """
        import json, os
        import rtrain
        rtrain.init(num_cpus=1)
        @rtrain.remote
        def environment(*names):
            return {name: os.environ.get(name) for name in names}
        names = ("OWN_TOKEN", "MASTER_ADDR", "SLURM_PROCID", "RANK", "RTRAIN_OWN", "PWD")
        print(json.dumps(rtrain.get(environment.remote(*names))))
        from rtrain._http import Head
        print("in records:", "a-secret-value" in json.dumps(Head.current().items("/v1/runs")))
    """
    own = {
        "OWN_TOKEN": "a-secret-value",
        "MASTER_ADDR": "elsewhere",
        "SLURM_PROCID": "7",
        "RANK": "7",
        "RTRAIN_OWN": "x",
        "PWD": "/x",
    }
    variables, records = home.script(script, **own).splitlines()
    seen = json.loads(variables)
    assert seen.pop("MASTER_ADDR") != "elsewhere" and seen.pop("RANK") == "0"
    assert seen == {"OWN_TOKEN": "a-secret-value", "SLURM_PROCID": None, "RTRAIN_OWN": None, "PWD": None}
    assert records == "in records: False"


def test_runs_of_a_local_cluster_are_read_and_gone_on_with_after_its_end(home: Home) -> None:
    (home.folder / "project").mkdir()
    home.script(
        """
        from rtrain import train
        from rtrain.train import Checkpoint, DataParallelTrainer, RunConfig

        def loop(config):
            start = train.get_checkpoint().to_dict()["epoch"] + 1 if train.get_checkpoint() else 0
            for epoch in range(start, config["epochs"]):
                train.report({"epoch": epoch}, Checkpoint.from_dict({"epoch": epoch}))

        DataParallelTrainer(loop, train_loop_config={"epochs": 2}, run_config=RunConfig(name="kept")).fit()  # inits by itself
        """,
        name="project/first.py",
    )
    out = home.script(
        """
        import sys
        from rtrain.train import DataParallelTrainer, Result

        print(Result.from_path(sys.argv[1]).checkpoint.to_dict())
        result = DataParallelTrainer.restore(sys.argv[1], train_loop_config={"epochs": 4}).fit()
        print([row["epoch"] for row in result.all_metrics])
        """,
        str(home.folder / "rtrain_results" / "kept"),
        name="project/second.py",
    )
    assert out.splitlines() == ["{'epoch': 1}", "[0, 1, 2, 3]"]


def test_restore_goes_on_in_the_directory_that_it_is_given_whatever_the_cluster(home: Home) -> None:
    (home.folder / "project").mkdir()
    trains = """
        import sys
        import rtrain
        from rtrain import train
        from rtrain.train import Checkpoint, DataParallelTrainer, RunConfig

        def loop(config):
            start = train.get_checkpoint().to_dict()["epoch"] + 1 if train.get_checkpoint() else 0
            for epoch in range(start, config["epochs"]):
                train.report({"epoch": epoch}, Checkpoint.from_dict({"epoch": epoch}))

        rtrain.init(num_cpus=1, storage_path="here")
        DataParallelTrainer(loop, train_loop_config={"epochs": 2}, run_config=RunConfig(name="kept")).fit()
        """
    restores = """
        import sys
        import rtrain
        from rtrain.train import DataParallelTrainer, RunConfig

        rtrain.init(num_cpus=1, storage_path=sys.argv[3] if len(sys.argv) > 3 else None)
        config = RunConfig() if len(sys.argv) > 3 else None
        again = DataParallelTrainer.restore(sys.argv[1], train_loop_config={"epochs": int(sys.argv[2])}, run_config=config)
        result = again.fit()
        print([row["epoch"] for row in result.all_metrics], result.path)
        """
    home.script(trains, name="project/first.py")
    first = home.folder / "here" / "kept"
    assert home.script(restores, str(first), "3", name="project/again.py") == f"[0, 1, 2] {first}\n"
    assert not (home.folder / "rtrain_results" / "kept").exists()
    renamed = home.folder / "there" / "renamed"
    shutil.copytree(first, renamed)
    before = sorted(first.iterdir())
    assert home.script(restores, f"{renamed}/", "4", "here", name="project/again.py") == f"[0, 1, 2, 3] {renamed}\n"
    assert sorted(first.iterdir()) == before
    assert home.script(restores, str(first), "4", "here", name="project/again.py") == "[0, 1, 2, 3] cluster://kept\n"
    assert sorted(first.iterdir()) != before  # that directory is in the head's own storage


def test_a_remote_call_inits_by_itself_and_says_where_runs_are_kept(home: Home) -> None:
    driver = home.start("import rtrain; print(rtrain.get(rtrain.remote(lambda: 5).remote()), rtrain.is_initialized())")
    out, err = driver.communicate(timeout=120)
    assert (driver.returncode, out) == (0, "5 True\n"), err
    assert str(home.folder / "rtrain_results") in err


def test_a_second_init_is_an_error_without_the_flag(home: Home) -> None:
    out = home.script("""
        import rtrain
        first = rtrain.init(num_cpus=1)
        try:
            rtrain.init()
        except RuntimeError as error:
            print("ignore_reinit_error=True" in str(error))
        print(rtrain.init(ignore_reinit_error=True) is first)
        try:
            rtrain.init(ignore_reinit_error=True, num_gpu=1)
        except TypeError as error:
            print(error)
    """)
    assert out.splitlines() == ["True", "True", "rtrain.init() has no argument 'num_gpu'"]


def test_killed_processes_leave_nothing_that_runs(home: Home) -> None:
    (home.folder / "job.yaml").write_text(JOB)
    driver = home.start(f"""
        import subprocess
        import rtrain
        rtrain.init(num_cpus=1)
        subprocess.run([{BINARY!r}, "submit", "job.yaml"], check=True)
        import threading
        threading.Event().wait()
    """)
    wait_for("the run's worker", lambda: any(_is_sleep(pid) for pid in processes_below(home.folder)))
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    wait_for("the daemons and the worker to end", lambda: processes_below(home.folder) == [])
    assert (home.folder / "rtrain_results" / "sleeper" / "run.json").is_file()  # the run's files are kept
    home.script("import rtrain; rtrain.init(num_cpus=1)")
    assert list((home.folder / "tmp").iterdir()) == []  # the files of the ended cluster itself are removed


def _is_sleep(pid: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0")
    except OSError:
        return False


def test_auto_needs_a_cluster_and_a_context_is_taken(home: Home) -> None:
    output = home.script("import rtrain; rtrain.init('auto')", expect=1)
    assert "ConnectionError" in output and "no cluster is known" in output
    output = home.script("import rtrain; rtrain.init('nowhere.invalid:7433')", expect=1)
    assert "ConnectionError" in output
    up = home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--resources", "CPU=2")
    address = re.search(r"head at (\S+) and", up)
    assert address is not None, up
    try:
        script = """
            import sys
            import rtrain
            info = rtrain.init(*sys.argv[1:])
            from rtrain._http import Head
            print(info.local, info.address, Head.current().get("/v1/status")["cpus"]["total"])
        """
        for arguments in ([], ["auto"], [address[1]]):
            assert home.script(script, *arguments).split() == ["False", address[1], "2"]
    finally:
        home.rtrain("down", "--yes")
    out = home.start("import rtrain; print(rtrain.init(num_cpus=1).local)")
    assert finish(out).split() == ["True"]  # the cluster of the context is on this machine and has ended
    output = home.script("import rtrain; rtrain.init('auto')", expect=1)
    assert "cannot be reached" in output


def test_the_driver_names_the_backend_that_ranks_with_fake_gpus_use(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--resources", "CPU=2", "--fake-gpus", "2xA100")
    script = """
        import torch
        from rtrain.train import ScalingConfig
        from rtrain.train.torch import TorchConfig, TorchTrainer
        def loop():
            print("joined", torch.distributed.get_backend())
        for named in (None, "cpu:gloo"):
            scaling = ScalingConfig(num_workers=2, use_gpu=True)
            TorchTrainer(loop, torch_config=TorchConfig(backend=named), scaling_config=scaling).fit()
    """
    try:
        process = home.start(script)
        out, err = process.communicate(timeout=240)
    finally:
        home.rtrain("down", "--yes")
    assert process.returncode == 0 and "joined gloo" in out, out + err
    shown = re.findall(r"rtrain:   backend (.*), master 127.0.0.1", err)
    assert shown == ["gloo", "cpu:gloo"], err


def test_what_this_machine_does_not_have_is_named(home: Home) -> None:
    output = home.script("import rtrain; rtrain.init(num_cpus=1, num_gpus=4096)", expect=1)
    assert "rtrain up" in output and "--resources GPU=4096: this node has " in output
    assert processes_below(home.folder) == []


def test_a_missing_program_is_named(home: Home) -> None:
    output = home.script("import rtrain; rtrain.init()", expect=1, RTRAIN_BINARY="/nowhere/rtrain")
    assert "RTRAIN_BINARY names /nowhere/rtrain" in output


def test_a_forked_child_does_not_end_its_parents_cluster(home: Home) -> None:
    out = home.script("""
        import os
        import rtrain
        from rtrain._http import Head
        rtrain.init(num_cpus=1)
        child = os.fork()
        if child == 0:
            rtrain.shutdown()
            os._exit(0)
        os.waitpid(child, 0)
        print(Head.current().get("/v1/status")["nodes"])
    """)
    assert "'READY': 1" in out

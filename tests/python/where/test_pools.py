"""Pools of remote functions with a real cluster: many calls in few workers, losses, nested calls, and what is left behind."""

from __future__ import annotations

import json
import signal
import textwrap

from homes import Home, processes_below, wait_for

COMMON = """
    import os, pathlib, signal, sys, threading, time
    import rtrain
    from rtrain._http import Head

    ENDED = ("FAILED", "SUCCEEDED", "STOPPED")

    def runs():
        return Head.current().items("/v1/runs", {"all": "true"})
"""


def script(text: str) -> str:
    return textwrap.dedent(COMMON) + textwrap.dedent(text)


def test_a_thousand_calls_need_few_workers_and_leave_none(home: Home) -> None:
    out = home.script(
        script("""
        rtrain.init(num_cpus=2)

        @rtrain.remote
        def double(number):
            return 2 * number, os.getpid()

        answers = rtrain.get([double.remote(number) for number in range(1000)])
        print([value for value, _ in answers] == [2 * number for number in range(1000)], len({pid for _, pid in answers}) <= 2)
        print(2 <= len(runs()) <= 4)

        @rtrain.remote
        def later():
            return os.getpid()

        print(rtrain.get(later.remote()) in {pid for _, pid in answers})  # another function, one of the same workers
        while any(run["state"] not in ENDED for run in runs()):
            threading.Event().wait(0.1)
        print(len(runs()) <= 4)
        """),
        RTRAIN_POOL_IDLE_S="5",
    )
    assert out.splitlines() == ["True True", "True", "True", "True"]
    wait_for("all processes to end", lambda: processes_below(home.folder) == [])


def test_a_long_call_holds_up_no_call_behind_it(home: Home) -> None:
    out = home.script(
        script("""
        rtrain.init(num_cpus=2)
        place = pathlib.Path(sys.argv[1])

        @rtrain.remote
        def step(name):
            if name == "long":
                while not (place / "go").exists():
                    threading.Event().wait(0.01)
            return name

        rtrain.get([step.remote("short") for _ in range(200)])
        refs = [step.remote("long"), *(step.remote("short") for _ in range(100))]
        print(set(rtrain.get(refs[1:], timeout=60)), refs[0].done())
        (place / "go").touch()
        print(rtrain.get(refs[0], timeout=60))
        """),
        str(home.folder),
    )
    assert out.splitlines() == ["{'short'} False", "long"]


def test_two_shapes_of_resources_have_workers_of_their_own(home: Home) -> None:
    out = home.script(
        script("""
        rtrain.init(num_cpus=2)

        def where():
            return os.getpid(), os.environ["RTRAIN_RUN_ID"], os.environ.get("COLOUR", "")

        small, large = rtrain.remote(num_cpus=1)(where), rtrain.remote(num_cpus=2)(where)
        red = rtrain.remote(num_cpus=1, runtime_env={"env_vars": {"COLOUR": "red"}})(where)
        seen = [rtrain.get(function.remote(), timeout=60) for function in (small, large, red, small)]
        print([colour for *_, colour in seen], len({pid for pid, *_ in seen[:3]}))
        needs = {run["run_id"]: run["needs"] for run in runs()}
        print(needs[seen[0][1]] == needs[seen[2][1]] != needs[seen[1][1]])
        """),
        RTRAIN_POOL_IDLE_S="60",  # idle workers end at once for those that wait
    )
    assert out.splitlines() == ["['', '', 'red', ''] 3", "True"]


def test_a_recursion_deeper_than_the_cluster_has_cpus_ends(home: Home) -> None:
    out = home.script(
        script("""
        rtrain.init(num_cpus=2)

        @rtrain.remote
        def fib(number):
            if number < 2:
                return number
            return sum(rtrain.get([fib.remote(number - 1), fib.remote(number - 2)]))

        @rtrain.remote
        def depth(left):
            return 1 + rtrain.get(depth.remote(left - 1)) if left else 1

        print(rtrain.get(fib.remote(8), timeout=200))
        print(rtrain.get([depth.remote(8), depth.remote(8)], timeout=200))
        """),
        expect=0,
    )
    assert out.splitlines() == ["21", "[9, 9]"]
    wait_for("all processes to end", lambda: processes_below(home.folder) == [])


def test_a_killed_worker_s_call_is_repeated_and_settles_once(home: Home) -> None:
    driver = home.start(
        script("""
        rtrain.init(num_cpus=2)
        place = pathlib.Path(sys.argv[1])
        settled = []

        @rtrain.remote
        def work(number):
            if number == 50:
                try:
                    (place / "begun").touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
                except FileExistsError:
                    pass
            return number

        @rtrain.remote(max_retries=0)
        def dies():
            os.kill(os.getpid(), signal.SIGKILL)

        @rtrain.remote(max_retries=2)
        def counts():
            with (place / "tries").open("a") as file:
                file.write("x")
            os._exit(3)

        refs = [work.remote(number) for number in range(100)]
        for number, ref in enumerate(refs):
            ref._when_done(lambda number=number: settled.append(number))
        print(rtrain.get(refs, timeout=120) == list(range(100)), sorted(settled) == list(range(100)))
        for function in (dies, counts):
            try:
                rtrain.get(function.remote(), timeout=120)
            except rtrain.exceptions.WorkerCrashedError as error:
                print(str(error).partition(":")[0], "FAILED" in str(error))
        print((place / "tries").read_text())
        """),
        str(home.folder),
    )
    out, err = driver.communicate(timeout=240)
    assert out.splitlines() == ["True True", "dies() True", "counts() True", "xxx"], err
    assert "rtrain: work() starts anew: its worker ended before it answered" in err


def test_exceptions_are_repeated_only_where_the_call_asks_for_it(home: Home) -> None:
    out = home.script(
        script("""
        rtrain.init(num_cpus=2)
        place = pathlib.Path(sys.argv[1])

        def tries(name):
            with (place / name).open("a") as file:
                file.write("x")
            return len((place / name).read_text())

        @rtrain.remote
        def fails(name, until, kind=OSError):
            if tries(name) < until:
                raise kind(f"try {name}")
            return "value"

        def outcome(ref):
            try:
                return rtrain.get(ref, timeout=60)
            except rtrain.exceptions.TaskError as error:
                return type(error.cause).__name__

        cases = {
            "plain": fails,
            "any": fails.options(retry_exceptions=True),
            "few": fails.options(retry_exceptions=True, max_retries=1),
            "listed": fails.options(retry_exceptions=[OSError]),
            "other": fails.options(retry_exceptions=[ValueError]),
        }
        for name, function in cases.items():
            print(name, outcome(function.remote(name, 3)), (place / name).read_text())
        """),
        str(home.folder),
    )
    assert out.splitlines() == ["plain OSError x", "any value xxx", "few OSError xx", "listed value xxx", "other OSError x"]


def test_calls_are_cancelled_before_and_while_they_run(home: Home) -> None:
    out = home.script(
        script("""
        rtrain.init(num_cpus=1)
        place = pathlib.Path(sys.argv[1])

        @rtrain.remote
        def waits(name):
            (place / name).touch()
            try:
                threading.Event().wait()
            finally:
                (place / f"{name}-left").touch()

        @rtrain.remote
        def outer():
            return rtrain.get(waits.remote("inner"))

        @rtrain.remote
        def pid():
            return os.getpid()

        def until(name):
            while not (place / name).exists():
                threading.Event().wait(0.01)

        def outcome(ref):
            try:
                return rtrain.get(ref, timeout=60)
            except rtrain.exceptions.TaskCancelledError as error:
                return error

        before = rtrain.get(pid.remote())
        running, queued = waits.remote("first"), waits.remote("second")
        until("first")
        rtrain.cancel(queued)
        print(outcome(queued), (place / "second").exists())
        rtrain.cancel(running)
        print(outcome(running), (place / "first-left").exists(), rtrain.get(pid.remote(), timeout=60) == before)
        forced = waits.remote("third")
        until("third")
        rtrain.cancel(forced, force=True)
        print(outcome(forced), (place / "third-left").exists(), rtrain.get(pid.remote(), timeout=60) == before)
        nested = outer.remote()
        until("inner")
        rtrain.cancel(nested)
        print(outcome(nested))
        until("inner-left")
        done = pid.remote()
        rtrain.get(done)
        rtrain.cancel(done)
        print(rtrain.get(done) > 0)
        try:
            rtrain.cancel(3)
        except TypeError as error:
            print(error)
        """),
        str(home.folder),
    )
    assert out.splitlines() == [
        "waits() was cancelled False",
        "waits() was cancelled True True",
        "waits() was cancelled False False",
        "outer() was cancelled",
        "True",
        "rtrain.cancel takes the ref of a remote function's call, not int",
    ]


def test_large_arguments_and_several_values_arrive(home: Home) -> None:
    out = home.script(
        script("""
        import numpy
        rtrain.init(num_cpus=2)

        @rtrain.remote(num_returns=2)
        def parts(array, text, *, factor):
            return array * factor, text.upper()

        @rtrain.remote
        def total(array, more):
            return float(array.sum()) + rtrain.get(more[0])

        big = numpy.ones(4_000_000)
        refs = [parts.remote(big, "x" * 1_000_000, factor=number) for number in range(8)]
        print(all(rtrain.get(text) == "X" * 1_000_000 for _, text in refs))
        print(rtrain.get([total.remote(array, [rtrain.put(1)]) for array, _ in refs]) == [4e6 * number + 1 for number in range(8)])
        slow = rtrain.remote(lambda: threading.Event().wait(1.0) or 5).remote()
        print(rtrain.get(total.remote(numpy.ones(3), [slow])))
        """)
    )
    assert out.splitlines() == ["True", "True", "8.0"]


def test_a_killed_driver_leaves_no_worker(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--resources", "CPU=2")
    try:
        driver = home.start(
            script("""
            rtrain.init("auto")
            place = pathlib.Path(sys.argv[1])

            @rtrain.remote
            def waits():
                (place / str(os.getpid())).touch()
                threading.Event().wait()

            @rtrain.remote
            def nested():
                return rtrain.get(waits.remote())

            refs = [nested.remote() for _ in range(2)] + [waits.remote() for _ in range(20)]
            rtrain.get(refs)
            """),
            str(home.folder / "tmp"),
        )
        wait_for("calls that run", lambda: len([file for file in (home.folder / "tmp").iterdir() if file.name.isdigit()]) >= 2)
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
        wait_for("the workers to end", lambda: not [pid for pid in processes_below(home.folder) if is_worker(pid)], seconds=10)
        wait_for(
            "the runs to end",
            lambda: all(run["state"] in ("FAILED", "STOPPED", "SUCCEEDED") for run in all_runs(home)),
            seconds=60,
        )
    finally:
        home.rtrain("down", "--yes")


def all_runs(home: Home) -> list[dict]:
    return json.loads(home.rtrain("runs", "--all", "-o", "json"))["items"]


def is_worker(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"_pools._worker" in file.read() and b"__shim" not in file.read()
    except OSError:
        return False


def test_a_drained_node_s_calls_are_repeated_elsewhere_without_a_retry(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--nodes", "2", "--resources", "CPU=1")
    place = home.folder / "place"
    place.mkdir()
    try:
        driver = home.start(
            script("""
            rtrain.init("auto")
            place = pathlib.Path(sys.argv[1])

            @rtrain.remote(max_retries=0)
            def task(number):
                (place / f"task-{os.environ['RTRAIN_NODE']}").touch()
                if len(list(place.glob("task-*"))) == 1:
                    threading.Event().wait()
                return number

            print(rtrain.get(task.remote(7), timeout=200), flush=True)
            """),
            str(place),
        )
        node = wait_for("the task", lambda: [file.name for file in place.glob("task-*")])[0].removeprefix("task-")
        home.rtrain("node", "drain", node, "--reason", "new kernel", "--deadline", "1s", "--yes")
        out, err = driver.communicate(timeout=200)
        assert out.splitlines() == ["7"], err
        assert "rtrain: task() starts anew: its worker was ended: node " in err
    finally:
        home.rtrain("down", "--yes")


def test_a_worker_that_cannot_start_fails_the_calls_with_its_cause(home: Home) -> None:
    out = home.script(
        script("""
        rtrain.init(num_cpus=1)

        @rtrain.remote(runtime_env={"env_vars": {"PYTHONPATH": "/nowhere", "PYTHONHOME": "/nowhere"}})
        def never():
            return 1

        try:
            rtrain.get([never.remote() for _ in range(3)], timeout=100)
        except rtrain.exceptions.WorkerCrashedError as error:
            print(str(error).splitlines()[0].startswith("never(): its worker ended before it answered; run never-"))
        """)
    )
    assert out.splitlines() == ["True"]


def test_a_forked_child_has_no_part_in_the_calls_of_its_parent(home: Home) -> None:
    out = home.script(
        script("""
        rtrain.init(num_cpus=1)

        @rtrain.remote
        def slow():
            threading.Event().wait(2.0)
            return "value"

        @rtrain.remote
        def quick():
            return "quick"

        refs = [slow.remote(), quick.remote()]
        child = os.fork()
        if child == 0:
            code = 1
            try:
                rtrain.get(refs[1], timeout=30)
            except rtrain.exceptions.TaskCancelledError as error:
                code = 0 if "which this one was forked from" in str(error) else 2
            os._exit(code)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), rtrain.get(refs, timeout=60))
        """)
    )
    assert out.splitlines() == ["0 ['value', 'quick']"]


def test_a_new_connection_has_new_pools(home: Home) -> None:
    out = home.script(
        script("""
        pids = []
        for _ in range(2):
            rtrain.init(num_cpus=1)
            pids.append(rtrain.get(rtrain.remote(os.getpid).remote(), timeout=60))
            waiting = rtrain.remote(lambda: threading.Event().wait()).remote()
            rtrain.shutdown()
            try:
                rtrain.get(waiting, timeout=30)
            except rtrain.exceptions.TaskCancelledError as error:
                print("the connection to the cluster was ended" in str(error))
        print(len(set(pids)))
        """)
    )
    assert out.splitlines() == ["True", "True", "2"]

"""rtrain.remote with a real cluster: values, errors, order, crashes, kill, and the cluster's records of it."""

from __future__ import annotations

import json
import os

from homes import Home, processes_below, wait_for


def test_functions(home: Home) -> None:
    (home.folder / "beside.py").write_text("def double(x):\n    return 2 * x\n")
    out = home.script("""
        import os
        import rtrain
        import beside

        rtrain.init(num_cpus=4)
        offset = 10

        @rtrain.remote
        def add(a, b=0):
            print("adding", flush=True)
            return beside.double(a) + b + offset

        @rtrain.remote(num_cpus=0.5, num_returns=2)
        def pair(x):
            return x, os.getpid()

        first = add.remote(1)
        second = add.remote(first, b=rtrain.put(100))
        print(rtrain.get([first, second]))
        value, pid = rtrain.get(pair.remote("x"))
        print(value, pid != os.getpid())
        print(rtrain.get(rtrain.remote(lambda: offset).remote()))
        ready, rest = rtrain.wait([add.remote(1), add.remote(2)], num_returns=2, timeout=60)
        print(len(ready), len(rest))
        try:
            add(1)
        except TypeError as error:
            print("add.remote" in str(error))
        try:
            add.remote(1, 2, 3)
        except TypeError as error:
            print(error)
        from rtrain._http import Head
        def adds():
            return [one for one in Head.current().items("/v1/runs", {"all": "true"}) if one["name"].startswith("add-")]

        while any(one["state"] not in ("FAILED", "SUCCEEDED", "STOPPED") for one in adds()):
            pass
        runs = adds()
        print({one["state"] for one in runs}, {one["labels"]["rtrain.remote"] for one in runs})
        logs = [Head.current().content(f"/v1/runs/{run['run_id']}/logs") for run in runs]
        print(b"adding" in b"".join(logs))
    """)
    lines = out.splitlines()
    lines_of_workers = [line for line in lines if line.startswith("(add(), ")]
    assert len(lines_of_workers) == 4 and all(line.endswith(") adding") for line in lines_of_workers)
    assert [line for line in lines if line not in lines_of_workers] == [
        "[12, 134]",
        "x True",
        "10",
        "2 0",
        "True",
        "add: too many positional arguments",
        "{'SUCCEEDED'} {'task'}",
        "True",
    ]


PRINTS = """
    import os, subprocess, sys, threading
    import rtrain

    rtrain.init(num_cpus=2, log_to_driver=sys.argv[1] == "shown")

    @rtrain.remote
    class Counter:
        def __init__(self):
            print("made")

        def add(self):
            print("half a", end=" ")
            print("line")
            print("to stderr", file=sys.stderr)
            sys.stdout.write("without an end")
            return 1

    class Noisy:
        def __del__(self):
            print("in a destructor")

    @rtrain.remote
    def floods():
        first = Noisy()
        del first
        threads = [threading.Thread(target=lambda: [print("x" * 50) for _ in range(200)]) for _ in range(5)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        raise KeyError("after all")

    counter = Counter.remote()
    print("answer", rtrain.get(counter.add.remote()))
    try:
        rtrain.get(floods.remote())
    except KeyError:
        print("raised")
"""


def test_what_remote_functions_and_actors_print_is_shown_before_their_answer(home: Home) -> None:
    driver = home.start(PRINTS, "shown")
    out, err = driver.communicate(timeout=180)
    assert driver.returncode == 0, err
    lines = [line.partition(") ")[2] if line.startswith("(") else line for line in out.splitlines()]
    assert lines[:4] == ["made", "half a line", "without an end", "answer 1"], out
    assert lines[4] == "in a destructor" and lines[-1] == "raised"
    assert lines[5:-1] == ["x" * 50] * 1000
    assert [line for line in err.splitlines() if line.startswith("(Counter, ") and line.endswith(") to stderr")]
    assert "Traceback" not in err  # the error contains the traceback


def test_prints_stay_where_they_are_when_the_driver_asks_for_that(home: Home) -> None:
    driver = home.start(PRINTS, "left")
    out, err = driver.communicate(timeout=180)
    assert out.splitlines() == ["answer 1", "raised"] and "to stderr" not in err


def test_refs_inside_of_other_values_bring_what_they_stand_for(home: Home) -> None:
    out = home.script("""
        import rtrain

        rtrain.init(num_cpus=4)

        @rtrain.remote
        def number(value):
            if value < 0:
                raise ValueError("below zero")
            return value

        @rtrain.remote
        def total(refs, more):
            try:
                rtrain.get(more["wrong"])
            except ValueError as error:
                wrong = "below zero" in str(error)
            return sum(rtrain.get(refs)), rtrain.get(more["one"]), wrong

        kept = rtrain.put(7)

        @rtrain.remote
        def closes_over():
            return rtrain.get(kept)

        refs = [number.remote(value) for value in (1, 2, 3)]
        print(rtrain.get(total.remote(refs, {"one": rtrain.put("x"), "wrong": number.remote(-1)})))
        print(rtrain.get(closes_over.remote()))
    """)
    assert out.splitlines() == ["(6, 'x', True)", "7"]


def test_errors_come_back_with_their_traceback(home: Home) -> None:
    out = home.script("""
        import os
        import rtrain
        from rtrain._http import Head

        rtrain.init(num_cpus=4)

        class Own(ValueError):
            def __init__(self, number, text):
                super().__init__(number, text)

        @rtrain.remote
        def fails():
            raise Own(7, "seven")

        @rtrain.remote
        def crashes():
            os._exit(3)

        @rtrain.remote
        def slow():
            import threading
            threading.Event().wait()

        a, b, c = fails.options(name="fails-alone").remote(), crashes.remote(), slow.remote()
        try:
            rtrain.get(a)
        except Own as error:
            print("in fails" in str(error), error.cause.args)
        try:
            rtrain.get(b)
        except rtrain.exceptions.WorkerCrashedError as error:
            print("FAILED" in str(error), "3" in str(error))
        try:
            rtrain.get(c, timeout=0.2)
        except rtrain.exceptions.GetTimeoutError as error:
            print(error)
        try:
            rtrain.get(rtrain.remote(lambda lock: 1).remote(__import__("threading").Lock()))
        except TypeError as error:
            print("an argument of" in str(error))
        def failing():
            return next(one for one in Head.current().items("/v1/runs", {"all": "true"}) if one["name"].startswith("fails-"))

        while (run := failing())["state"] not in ("FAILED", "SUCCEEDED", "STOPPED"):
            pass
        attempt = Head.current().items(f"/v1/runs/{run['run_id']}/attempts")[0]
        print(run["state"], "Own" in str(attempt))
    """)
    assert out.splitlines() == ["True (7, 'seven')", "True True", "slow() has no value yet", "True", "FAILED True"]
    wait_for("`slow` to go with its driver's cluster", lambda: processes_below(home.folder) == [])


def test_actors(home: Home) -> None:
    out = home.script("""
        import gc, os, signal, time
        import rtrain
        from rtrain._http import Head

        rtrain.init(num_cpus=4)

        @rtrain.remote(num_cpus=1)
        class Counter:
            def __init__(self, start, refuse=False):
                if refuse:
                    raise OSError("no disk")
                self.seen = [start]

            def add(self, number):
                self.seen.append(number)
                return list(self.seen)

            def fail(self):
                raise KeyError("nothing")

            def pid(self):
                return os.getpid()

        def state(name):
            return next(one["state"] for one in Head.current().items("/v1/runs", {"all": "true"}) if one["name"].startswith(name))

        def alive(pid):
            try:
                return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
            except OSError:
                return False

        one = Counter.options(name="one").remote(0)
        refs = [one.add.remote(number) for number in range(1, 20)]
        print(rtrain.get(refs)[-1] == list(range(20)))
        try:
            rtrain.get(one.fail.remote())
        except KeyError as error:
            print("in fail" in str(error))
        pid = rtrain.get(one.pid.remote())
        rtrain.kill(one, no_restart=True)
        print(alive(pid), state("one"))
        try:
            rtrain.get(one.pid.remote())
        except rtrain.exceptions.ActorDiedError as error:
            print("it was killed" in str(error))

        two = Counter.options(name="two").remote(0)
        last = two.pid.remote()
        del two
        gc.collect()
        pid = rtrain.get(last)  # what was called is answered, then it ends
        until = time.monotonic() + 120
        while state("two") != "SUCCEEDED" and time.monotonic() < until:
            gc.collect()
        print(alive(pid), state("two"))

        three = Counter.options(name="three").remote(0, refuse=True)
        try:
            rtrain.get(three.pid.remote())
        except rtrain.exceptions.ActorDiedError as error:
            print("no disk" in str(error))
        until = time.monotonic() + 60
        while state("three") != "FAILED" and time.monotonic() < until:
            pass
        print(state("three"))

        four = Counter.options(name="four").remote(0)
        os.kill(rtrain.get(four.pid.remote()), signal.SIGKILL)
        try:
            rtrain.get(four.pid.remote())
        except rtrain.exceptions.ActorDiedError as error:
            print("FAILED" in str(error))
        try:
            one.nothing
        except AttributeError as error:
            print(error)
    """)
    assert out.splitlines() == [
        "True",
        "True",
        "False STOPPED",
        "True",
        "False SUCCEEDED",
        "True",
        "FAILED",
        "True",
        "Counter has no method 'nothing'",
    ]


def test_a_killed_actor_s_gpu_is_free_when_kill_returns(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--resources", "CPU=2", "--fake-gpus", "1xA100")
    try:
        out = home.script("""
            import os
            import rtrain
            from rtrain._http import Head

            @rtrain.remote(num_gpus=1)
            class Model:
                def where(self):
                    return os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"]

            def free():
                return [node["gpus_free"] for node in Head.current().items("/v1/nodes")]

            rtrain.init("auto")
            for _ in range(2):
                model = Model.remote()
                pid, devices = rtrain.get(model.where.remote())
                taken = free()
                rtrain.kill(model, no_restart=True)
                print(devices, taken, free(), os.path.exists(f"/proc/{pid}"))
        """)
        assert out.splitlines() == ["0 ['0'] ['1'] False"] * 2
    finally:
        home.rtrain("down", "--yes")


def test_large_arrays_move_directly(home: Home) -> None:
    """The arrays are stored neither on the head's disk nor in its memory. RTRAIN_TEST_REMOTE_MIB=1024 tests the
    documented size. The default is a quarter of it, since four processes of CI share the memory.
    """
    size = int(os.environ.get("RTRAIN_TEST_REMOTE_MIB", "240")) << 20
    out = home.script(
        r"""
        import numpy, pathlib, re, sys
        import rtrain
        rtrain.init(num_cpus=2)

        @rtrain.remote
        def ones(count):
            return {"data": numpy.ones(count)}

        @rtrain.remote
        def total(array):
            return float(array.sum())

        def daemons():  # the most memory that each of this cluster ever had, in MiB
            found = {}
            for entry in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    mine = f"{pathlib.Path.home()}/".encode() in (entry / "environ").read_bytes()
                    status = (entry / "status").read_text()
                except OSError:
                    continue
                if mine and words[0].endswith(b"rtrain") and words[1] in (b"head", b"node", b"up"):
                    found[entry.name] = int(re.search(r"VmHWM:\s+(\d+)", status)[1]) >> 10
            return found

        before = daemons()
        count = int(sys.argv[1]) // 8
        found = rtrain.get(ones.remote(count))["data"]
        print(found.nbytes, found.sum() == found.size)
        print(rtrain.get(total.remote(found)))
        print(len(before), *[mib - before.get(pid, 0) for pid, mib in daemons().items()])
        """,
        str(size),
    )
    moved, total, grown = out.splitlines()
    assert (moved, total) == (f"{size} True", f"{size // 8}.0")
    stored = sum(file.stat().st_size for file in (home.folder / "rtrain_results").rglob("*") if file.is_file())
    assert stored < 10_000_000  # the arrays did not go through the head
    daemons, *mib = map(int, grown.split())
    assert daemons >= 1 and len(mib) == daemons and max(mib) < 60, grown


def test_a_call_that_waits_says_why_and_goes_with_its_driver(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--resources", "CPU=2")
    try:
        driver = home.start("""
            import rtrain
            rtrain.init("auto")

            @rtrain.remote(num_cpus=1)
            def runs():
                import threading
                threading.Event().wait()

            @rtrain.remote(num_cpus=64)
            def large():
                return 1

            refs = [runs.options(name="runs").remote(), large.options(name="large").remote()]
            rtrain.wait(refs, timeout=8)
        """)
        _, err = driver.communicate(timeout=240)
        assert driver.returncode == 0, err
        assert "large() waits:" in err
        states = wait_for("both to be stopped", lambda: _ended(home))
        assert set(states) <= {"STOPPED", "FAILED"}
    finally:
        home.rtrain("down", "--yes")


def _ended(home: Home) -> list[str]:
    runs = json.loads(home.rtrain("runs", "--all", "-o", "json"))["items"]
    states = [one["state"] for one in runs]
    return states if len(states) == 2 and all(one in ("STOPPED", "FAILED") for one in states) else []


def test_a_drained_node_s_calls_are_done_again_elsewhere_and_its_actors_die(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--nodes", "2", "--resources", "CPU=2")
    place = home.folder / "place"
    place.mkdir()
    try:
        driver = home.start(
            """
            import os, pathlib, sys, threading
            import rtrain
            rtrain.init("auto")
            place = pathlib.Path(sys.argv[1])

            def came(what):  # whether it is the first to come
                (place / f"{what}-{os.environ['RTRAIN_NODE']}").touch()
                return len(list(place.glob(f"{what}-*"))) == 1

            @rtrain.remote
            def task(number):
                if came("task"):
                    threading.Event().wait()
                return number

            @rtrain.remote(num_cpus=1)
            class Actor:
                def __init__(self, what=""):
                    if what and came(what):
                        threading.Event().wait()

                def add(self, number):
                    return number + 1

                def wait(self):
                    came("actor")
                    threading.Event().wait()

            print(rtrain.get(task.options(name="task").remote(7), timeout=240), flush=True)

            slow = Actor.options(name="slow").remote("slow")
            print(rtrain.get([slow.add.remote(1), slow.add.remote(2)], timeout=240), flush=True)

            actor = Actor.options(name="actor").remote()
            assert rtrain.get(actor.add.remote(1)) == 2
            waits, later = actor.wait.remote(), actor.add.remote(2)
            for ref in (waits, later):
                try:
                    rtrain.get(ref, timeout=240)
                except rtrain.exceptions.ActorDiedError as error:
                    print(error, flush=True)
            """,
            str(place),
        )
        for what in ("task", "slow", "actor"):
            node = wait_for(f"the {what}", lambda what=what: [one.name for one in place.glob(f"{what}-*")])[0].removeprefix(
                f"{what}-"
            )
            home.rtrain("node", "drain", node, "--reason", "new kernel", "--deadline", "1s", "--yes")
            if what != "actor":
                wait_for("it to come again", lambda what=what: len(list(place.glob(f"{what}-*"))) == 2)
                home.rtrain("node", "undrain", node)
        out, err = driver.communicate(timeout=120)
        assert driver.returncode == 0, err
        number, numbers, *died = out.splitlines()
        assert (number, numbers) == ("7", "[2, 3]")
        for line, call in zip(died, ("wait", "add"), strict=True):
            assert line.startswith(f"Actor.{call}(): its worker was ended: node {node} drains"), line
            assert "new kernel" in line and "its state is gone" in line
        assert "rtrain: task() starts anew: its worker was ended: node " in err
        wait_for(
            "the actor's run to be stopped",
            lambda: json.loads(home.rtrain("describe", "actor", "-o", "json"))["state"] == "STOPPED",
        )
    finally:
        home.rtrain("down", "--yes")


def test_more_actors_than_cpus_live_at_once(home: Home) -> None:
    out = home.script("""
        import rtrain
        from rtrain._http import Head

        rtrain.init(num_cpus=1)

        @rtrain.remote
        class Counter:
            def __init__(self, start):
                self.count = start

            def add(self, more):
                self.count += more
                return self.count

        actors = [Counter.remote(number) for number in range(3)]
        print(rtrain.get([actor.add.remote(10) for actor in actors], timeout=60))
        print(rtrain.get(rtrain.remote(lambda: "the CPU is free").remote(), timeout=60))
        print(rtrain.get(rtrain.remote(num_cpus=0)(lambda: "no CPU").remote(), timeout=60))
        counted = Counter.options(num_cpus=1).remote(5)
        print(rtrain.get(counted.add.remote(1), timeout=60))
    """)
    assert out.splitlines() == ["[10, 11, 12]", "the CPU is free", "no CPU", "6"]

"""Actors with a real cluster: handles in other processes, several calls at a time, generators, restarts."""

from __future__ import annotations

import json
import os
import signal

import channels
from homes import Home, processes_below, wait_for

COUNTER = """
    import asyncio, os, threading
    import rtrain
    from rtrain.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError

    rtrain.init(num_cpus=4)

    @rtrain.remote
    class Counter:
        def __init__(self):
            self.calls = []

        def add(self, number):
            self.calls.append(number)
            return len(self.calls)

        def seen(self):
            return self.calls

        def squares(self, count):
            for number in range(count):
                self.calls.append(number)
                yield number * number
"""


def test_handles_reach_other_processes_and_keep_their_actor(home: Home) -> None:
    out = home.script(
        COUNTER
        + """
    @rtrain.remote
    class Holder:
        def __init__(self, counter):
            self.counter = counter

        def add(self, number):
            return rtrain.get(self.counter.add.remote(number))

        def burst(self, start):
            refs = [self.counter.add.remote(number) for number in range(start, start + 50)]
            rtrain.get(refs)

        def handle(self):
            return self.counter

        def drop(self):
            self.counter = None

    @rtrain.remote
    def adds(inside):
        return rtrain.get(inside["counter"].add.remote(7))

    def state():
        from rtrain._http import Head
        return next(run["state"] for run in Head.current().items("/v1/runs", {"all": "true"}) if run["name"].startswith("Counter"))

    counter = Counter.remote()
    print(rtrain.get(adds.remote({"counter": counter})))
    first, second = Holder.remote(counter), Holder.remote(counter)
    rtrain.get([first.burst.remote(1000), second.burst.remote(2000)])
    seen = rtrain.get(counter.seen.remote())
    print([number for number in seen if number // 1000 == 1] == list(range(1000, 1050)), len(seen))
    del counter, second
    print(rtrain.get(first.add.remote(1)), state())
    third = Holder.remote(rtrain.get(first.handle.remote()))  # first has it, and lends it to third by this process
    print(rtrain.get(third.add.remote(2)))
    rtrain.get([first.drop.remote(), third.drop.remote()])
    print(state())
    del first  # what it returned is kept with its connection
    while state() != "SUCCEEDED":
        pass
    print(state())
    """
    )
    assert out.splitlines() == ["1", "True 101", "102 RUNNING", "103", "RUNNING", "SUCCEEDED"]


def test_a_handle_is_pickled_for_no_file_and_strangers_do_not_connect(home: Home) -> None:
    out = home.script(
        COUNTER
        + """
    import pickle, sys
    from rtrain._remote._actors._borrowed import HOLDERS
    from rtrain._remote._channel import ChannelError, dial
    from rtrain._remote._cipher import Identity

    counter = Counter.remote()
    try:
        pickle.dumps(counter)
    except TypeError as error:
        print(error)
    rtrain.get(rtrain.remote(lambda inner: rtrain.get(inner.add.remote(1))).remote(counter))
    host, _, port = counter._slot.address.rpartition(":")
    for name in (HOLDERS, "0" * 16):
        try:
            dial((host, int(port)), name, Identity(sys.argv[1]), 5)
        except ChannelError as error:
            print(error)
    print(rtrain.get(counter.add.remote(2)))
    """,
        channels.RUN,
    )
    refused, stranger, unknown, answer = out.splitlines()
    assert refused.startswith("the handle of Counter can only be sent in arguments and results of remote calls")
    assert stranger == "the other side has a certificate of another run"
    assert unknown.startswith("the other side ended the handshake") and answer == "2"


def test_calls_run_at_a_time_in_threads_and_in_an_event_loop(home: Home) -> None:
    out = home.script(
        COUNTER
        + """
    @rtrain.remote(max_concurrency=3)
    class Threads:
        def __init__(self):
            self.barrier = threading.Barrier(3)

        def meet(self):
            return self.barrier.wait(60) in (0, 1, 2)

    @rtrain.remote
    class Loop:
        def __init__(self):
            self.loop, self.event, self.most, self.now = asyncio.get_running_loop(), asyncio.Event(), 0, 0

        async def wait(self):
            self.now += 1
            self.most = max(self.most, self.now)
            await self.event.wait()
            self.now -= 1
            return self.loop is asyncio.get_running_loop()

        def set(self):
            self.event.set()

        async def fail(self):
            raise KeyError("async")

        async def items(self, count):
            for number in range(count):
                await asyncio.sleep(0)
                yield number

        async def most_at_a_time(self):
            return self.most

    @rtrain.remote
    def ready(value):
        return value

    threads = Threads.remote()
    print(rtrain.get([threads.meet.remote() for _ in range(3)]))
    loop = Loop.remote()
    waiting = [loop.wait.remote() for _ in range(100)]
    loop.set.remote()
    print(set(rtrain.get(waiting)), rtrain.get(loop.most_at_a_time.remote()))
    try:
        rtrain.get(loop.fail.remote())
    except KeyError as error:
        print("in fail" in str(error))

    async def main():
        items = [await ref async for ref in loop.items.remote(200)]
        return sum(items), await asyncio.gather(ready.remote(1), ready.remote(2))

    print(asyncio.run(main()))
    limited = Loop.options(max_concurrency=2).remote()
    waiting = [limited.wait.remote() for _ in range(4)]
    print(len(rtrain.wait(waiting, num_returns=4, timeout=1)[0]))
    rtrain.kill(limited)
    """
    )
    assert out.splitlines() == ["[True, True, True]", "{True} 100", "True", "(19900, [1, 2])", "0"]


def test_a_generator_s_items_come_while_it_runs_a_bounded_number_ahead(home: Home) -> None:
    out = home.script(
        COUNTER
        + """
    @rtrain.remote
    def numbers(count, fails=False):
        for number in range(count):
            yield number
        if fails:
            raise ValueError("at the end")

    class Two:
        @rtrain.method(num_returns=2)
        def both(self):
            return "a", "b"

    print([rtrain.get(ref) for ref in numbers.remote(5)])
    refs = list(numbers.remote(2, fails=True))
    try:
        rtrain.get(refs)
    except ValueError as error:
        print(len(refs), "at the end" in str(error))
    counter = Counter.options(max_concurrency=2).remote()
    endless = counter.squares.options(_generator_backpressure_num_objects=4).remote(10**9)
    print([rtrain.get(next(endless)) for _ in range(3)])
    while len(rtrain.get(counter.seen.remote())) < 6:
        pass
    print(len(rtrain.get(counter.seen.remote())) <= 3 + 4 + 1)
    ready, _ = rtrain.wait([endless], timeout=60)
    print(ready == [endless], endless.is_finished())
    del endless, ready
    only = Counter.remote()
    closed = only.squares.remote(10**9)
    next(closed)
    del closed
    print(rtrain.get(only.add.remote(1), timeout=60) > 0)  # the generator was closed
    print(rtrain.get(only.squares.remote(300).completed()))
    print(rtrain.get(rtrain.remote(Two).remote().both.remote()))
    for wrong in (0, "dynamic"):
        try:
            numbers.options(num_returns=wrong)
        except ValueError as error:
            print(error)
    """
    )
    assert out.splitlines() == [
        "[0, 1, 2, 3, 4]",
        "3 True",
        "[0, 1, 4]",
        "True",
        "True False",
        "True",
        "300",
        "['a', 'b']",
        'num_returns is 0; it is 1 or more, or "streaming"',
        'num_returns="dynamic" is not supported: use "streaming", whose refs come while the generator runs',
    ]


def test_a_lost_actor_is_constructed_again_as_often_as_it_may(home: Home) -> None:
    out = home.script(
        COUNTER
        + """
    import pathlib, sys, signal
    place = pathlib.Path(sys.argv[1])

    @rtrain.remote(max_restarts=1)
    class Model:
        def __init__(self, name):
            self.name, self.calls = name, 0

        def call(self):
            self.calls += 1
            return self.name, self.calls

        def crash(self):
            os._exit(3)

        def crash_once(self):
            if not (place / "crashed").exists():
                (place / "crashed").touch()
                os._exit(3)
            return "repeated"

        @rtrain.method(max_task_retries=2, retry_exceptions=[KeyError])
        def flaky(self):
            self.calls += 1
            if self.calls < 3:
                raise KeyError(self.calls)
            return self.calls

    model = Model.remote("m")
    print(rtrain.get(model.flaky.remote()))
    try:
        rtrain.get(model.crash.remote())
    except ActorUnavailableError as error:
        print("exited with code 3" in str(error) or "waits for another one" in str(error))
    print(rtrain.get(model.call.remote()))
    try:
        rtrain.get(model.crash.remote())
    except ActorDiedError as error:
        print("FAILED" in str(error))
    print(rtrain.get(Model.options(max_task_retries=-1).remote("n").crash_once.remote()))

    third = Model.remote("o")
    held = rtrain.remote(lambda model: [rtrain.get(model.call.remote()) for _ in range(2)])
    print(rtrain.get(held.remote(third)))
    rtrain.kill(third, no_restart=False)
    while True:  # until the new one answers
        try:
            if rtrain.get(third.call.remote()) == ("o", 1):
                break
        except ActorUnavailableError:
            continue
    print(rtrain.get(held.remote(third)))
    rtrain.get(rtrain.remote(lambda model: rtrain.kill(model)).remote(third))
    try:
        rtrain.get(third.call.remote())
    except ActorDiedError as error:
        print("is STOPPED" in str(error))
    """,
        str(home.folder),
    )
    assert out.splitlines() == [
        "3",
        "True",
        "('m', 1)",
        "True",
        "repeated",
        "[('o', 1), ('o', 2)]",
        "[('o', 2), ('o', 3)]",
        "True",
    ]


def test_an_actor_that_may_be_restarted_ends_with_its_driver(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--resources", "CPU=2")
    try:
        driver = home.start("""
            import rtrain, threading
            rtrain.init("auto")

            @rtrain.remote(max_restarts=-1)
            class Lives:
                def ready(self):
                    return True

            actor = Lives.options(name="lives").remote()
            rtrain.get(actor.ready.remote())
            print("ready", flush=True)
            threading.Event().wait()
        """)
        assert driver.stdout is not None and driver.stdout.readline() == "ready\n"
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
        wait_for("the actor's run to end", lambda: '"STOPPED"' in home.rtrain("describe", "lives", "-o", "json"))
    finally:
        home.rtrain("down", "--yes")
    assert processes_below(home.folder) == []


def test_actors_are_found_by_their_names_within_a_program(home: Home) -> None:
    out = home.script(
        COUNTER
        + """
    import sys
    from rtrain._remote import _call_runs
    from rtrain._remote._channel import ChannelError, dial
    from rtrain._remote._cipher import Identity
    from rtrain._remote._ends import name_of_asker

    @rtrain.remote
    def adds(name):
        return rtrain.get(rtrain.get_actor(name).add.remote(1)), rtrain.util.list_named_actors(all_namespaces=True)

    @rtrain.remote
    class Maker:
        def make(self, exists=False):
            self.made = Counter.options(name="inner", namespace="own", get_if_exists=exists).remote()
            return rtrain.get(self.made.add.remote(1))

        def below(self, name):
            return rtrain.get(adds.remote(name))[0]

        def drop(self):
            self.made = None

    counter = Counter.options(name="outer").remote()
    print(rtrain.get(adds.remote("outer")))
    maker, other = Maker.remote(), Maker.remote()
    print(rtrain.get(maker.make.remote()), rtrain.get(maker.below.remote("outer")))
    print(rtrain.get(rtrain.get_actor("inner", "own").add.remote(1)), rtrain.get(other.make.remote(exists=True)))
    for wrong in (
        lambda: rtrain.get_actor("inner"),
        lambda: Counter.options(name="outer").remote(),
        lambda: rtrain.get(other.make.remote()),
        lambda: rtrain.get(adds.remote("nothing")),
    ):
        try:
            wrong()
        except ValueError as error:
            print(str(error).partition("ValueError: ")[2].split(":")[0] or str(error).split(":")[0])
    rtrain.get([maker.drop.remote(), other.drop.remote()])
    rtrain.kill(counter)
    print(rtrain.util.list_named_actors() == [], rtrain.get(Counter.options(name="outer").remote().add.remote(1)))
    call_runs = _call_runs.call_runs()
    host, _, port = call_runs.address.rpartition(":")
    for slot in (maker._slot.name, "0" * 16):
        try:
            dial((host, int(port)), name_of_asker(slot), Identity(sys.argv[1]), 5)
        except ChannelError as error:
            print(str(error).split(":")[0])
    """,
        channels.RUN,
    )
    assert out.splitlines() == [
        "(1, [{'namespace': '', 'name': 'outer'}])",
        "1 2",
        "2 3",
        "this program has no actor with the name 'inner' in namespace ''",
        "an actor of this program has the name 'outer' already",
        "an actor of this program has the name 'inner' already",
        "this program has no actor with the name 'nothing' in namespace ''",
        "True 1",
        "the other side has a certificate of another run",
        "the other side ended the handshake",
    ]


def test_an_actor_of_a_drained_node_is_constructed_again_elsewhere(home: Home) -> None:
    home.rtrain("up", "--pass-env", "PYTHONPATH", "--port", "0", "--nodes", "2", "--resources", "CPU=2")
    try:
        driver = home.start("""
            import os, sys
            import rtrain
            rtrain.init("auto")

            @rtrain.remote(num_cpus=1, max_restarts=1, max_task_retries=1)
            class Actor:
                def __init__(self):
                    self.calls = 0

                def call(self):
                    self.calls += 1
                    return os.environ["RTRAIN_NODE"], self.calls, rtrain.get_runtime_context().was_current_actor_reconstructed

            @rtrain.remote(num_cpus=0)
            class Holder:
                def __init__(self, actor):
                    self.actor = actor

                def call(self):
                    return rtrain.get(self.actor.call.remote())

            actor = Actor.remote()
            holder = Holder.remote(actor)
            print(rtrain.get(actor.call.remote())[0], flush=True)
            print(rtrain.get(holder.call.remote())[1], flush=True)
            sys.stdin.readline()
            seen = rtrain.get(actor.call.remote())
            print(*seen, rtrain.get(actor.call.remote())[1], flush=True)
        """)
        assert driver.stdout is not None
        node = driver.stdout.readline().strip()
        assert driver.stdout.readline() == "2\n"
        home.rtrain("node", "drain", node, "--reason", "new kernel", "--deadline", "1s", "--yes")
        wait_for("the actor on another node", lambda: _nodes_of_actor(home) not in ([], [node]))
        out, err = driver.communicate("\n", timeout=120)
        other = "node-2" if node == "node-1" else "node-1"
        assert out.splitlines() == [f"{other} 1 True 2"], err
        assert "rtrain: Actor is constructed again: its worker was ended: node " in err and "new kernel" in err
    finally:
        home.rtrain("down", "--yes")


def _nodes_of_actor(home: Home) -> list[str]:
    runs = json.loads(home.rtrain("runs", "-o", "json"))["items"]
    return next((run["nodes"] for run in runs if run["name"].startswith("Actor-") and run["state"] == "RUNNING"), [])


def test_an_actor_ends_itself_and_a_limit_of_calls_is_kept(home: Home) -> None:
    out = home.script(
        COUNTER
        + """
    from rtrain.actor import exit_actor
    from rtrain.exceptions import PendingCallsLimitExceeded

    @rtrain.remote(max_restarts=-1)
    class Ends:
        def end(self):
            exit_actor()

        def wait(self):
            threading.Event().wait()

    ends = Ends.options(name="ends").remote()
    for ref in [ends.end.remote(), ends.wait.remote()]:
        try:
            rtrain.get(ref)
        except ActorDiedError as error:
            print(error)
    try:
        exit_actor()
    except TypeError as error:
        print(error)
    waits = Ends.options(max_pending_calls=2).remote()
    refs = [waits.wait.remote(), waits.wait.remote()]
    try:
        waits.wait.remote()
    except PendingCallsLimitExceeded as error:
        print(error)
    print(rtrain.get(Counter.remote().__ray_ready__.remote()))
    print(rtrain.get(Counter.remote().__ray_call__.remote(lambda self, n: self.add(n), 1)))
    try:
        rtrain.remote(max_restarts=1)(lambda: 1).remote()
    except ValueError as error:
        print(error)
    """
    )
    assert out.splitlines() == [
        "Ends.end(): the actor has ended itself by exit_actor()",
        "Ends.wait(): the actor has ended itself by exit_actor()",
        "exit_actor() ends an actor, and this process is none: call it in a method of one",
        "Ends.wait(): 2 calls of this process are not answered (max_pending_calls)",
        "True",
        "1",
        "max_restarts is an option of actors, and this is a function",
    ]

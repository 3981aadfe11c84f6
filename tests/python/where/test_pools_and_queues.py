"""`rtrain.util`: pools of actors and queues, with a real cluster."""

from __future__ import annotations

from homes import Home


def test_a_pool_gives_values_to_the_actor_that_is_free(home: Home) -> None:
    out = home.script("""
        import threading
        import rtrain
        from rtrain.util import ActorPool

        rtrain.init(num_cpus=2)

        @rtrain.remote(max_concurrency=2)
        class Worker:
            def __init__(self):
                self.event = threading.Event()

            def double(self, value):
                return 2 * value

            def wait(self, value):
                self.event.wait()
                return value

            def set(self):
                self.event.set()

        def double(actor, value):
            return actor.double.remote(value)

        actors = [Worker.remote(), Worker.remote()]
        pool = ActorPool(actors)
        print(list(pool.map(double, range(5))), sorted(pool.map_unordered(double, range(5))))
        pool.submit(double, 1)
        pool.submit(lambda actor, value: actor.wait.remote(value), 2)
        pool.submit(double, 3)
        print(pool.has_free(), pool.get_next(), pool.pop_idle(), pool.has_next())
        try:
            pool.get_next(timeout=0.1)
        except TimeoutError as error:
            print(error)
        print(pool.get_next_unordered())  # the third value is not held up by the second
        rtrain.get([actor.set.remote() for actor in actors])
        print(pool.get_next_unordered(), pool.has_next(), pool.pop_idle() in actors)
        for wrong in (pool.get_next, lambda: pool.push(pool._idle[0])):
            try:
                wrong()
            except (StopIteration, ValueError) as error:
                print(type(error).__name__)
    """)
    assert out.splitlines() == [
        "[0, 2, 4, 6, 8] [0, 2, 4, 6, 8]",
        "False 2 None True",
        "the next result did not arrive within 0.1 s",
        "6",
        "2 False True",
        "StopIteration",
        "ValueError",
    ]


def test_a_queue_is_shared_by_processes_and_bounded(home: Home) -> None:
    out = home.script("""
        import asyncio
        import rtrain
        from rtrain.util.queue import Empty, Full, Queue

        rtrain.init(num_cpus=2)

        @rtrain.remote
        def produces(queue, numbers):
            for number in numbers:
                queue.put(number)

        @rtrain.remote
        def consumes(queue, count):
            return [queue.get() for _ in range(count)]

        queue = Queue(maxsize=2)
        numbers = consumes.remote(queue, 20)
        rtrain.get(produces.remote(queue, range(20)))
        print(rtrain.get(numbers) == list(range(20)), queue.empty())
        queue.put_nowait_batch([1, 2])
        print(queue.full(), len(queue))
        for call in (
            lambda: queue.put_nowait(3),
            lambda: queue.put(3, timeout=0.05),
            lambda: queue.put_nowait_batch([3]),
            lambda: queue.get_nowait_batch(3),
            lambda: queue.get_nowait_batch(2),
            lambda: queue.get_nowait(),
            lambda: queue.get(timeout=0.05),
            lambda: queue.get(timeout=-1),
        ):
            try:
                print(call())
            except Full:
                print("full")
            except Empty:
                print("empty")
            except ValueError as error:
                print(error)

        async def both():
            taken = asyncio.create_task(queue.get_async())
            await queue.put_async("x")
            return await taken

        print(asyncio.run(both()))
        queue.shutdown()
        try:
            queue.size()
        except rtrain.exceptions.RayActorError:
            print("shut down")
    """)
    assert out.splitlines() == [
        "True True",
        "True 2",
        *["full"] * 3,
        "empty",
        "[1, 2]",
        "empty",
        "empty",
        "'timeout' must be a non-negative number",
        "x",
        "shut down",
    ]

"""The time for which a loop waits for batches is measured cheaply and sent to the agent."""

import textwrap

DATA = """
    import threading, time
    import rtrain.train as t

    def pause(seconds):
        threading.Event().wait(seconds)

    t.get_context()
"""


def waited(agent):
    """Returns the newest sums of a heartbeat, in milliseconds."""
    pulses = [frame for frame in agent.heard if frame["type"] == "pulse"]
    return pulses[-1] if pulses else {}


def script(body):
    """Returns a script that waits at its end until the test has seen the expected values."""
    return textwrap.dedent(DATA) + textwrap.dedent(body) + "\nprint('read', flush=True)\ninput()\n"


def test_batches_of_a_dataset_that_are_waited_for(agent, start):
    worker = start(
        script(
            """
            import rtrain.data
            slow = rtrain.data.range(40).map_batches(lambda batch: pause(0.05) or batch, batch_size=10)
            for batch in slow.iter_batches(batch_size=10, prefetch_batches=0):
                pass
            """
        )
    )
    assert worker.line() == "read"
    agent.wait(lambda: waited(agent).get("data_wait_ms", -1) >= 190)
    assert waited(agent)["data_wait_ms"] < 2_000
    worker.go()
    worker.finish()


def test_batches_that_are_there_in_time_are_not_waited_for(agent, start):
    worker = start(
        script(
            """
            import rtrain.data
            for batch in rtrain.data.range(40).iter_batches(batch_size=10, prefetch_batches=4):
                pause(0.1)
            from rtrain import _waits
            print(_waits._data_ns < 100_000_000)
            """
        )
    )
    assert worker.line() == "True"
    agent.wait(lambda: waited(agent) != {})
    assert waited(agent).get("data_wait_ms", 0) < 100
    worker.go()
    worker.finish()


def test_a_prepared_loader_that_reads_a_dataset_is_waited_for_once(agent, start):
    worker = start(
        script(
            """
            import torch
            from rtrain.train import torch as rt
            import rtrain.data
            from torch.utils.data import DataLoader, IterableDataset

            class Slow(IterableDataset):
                def __iter__(self):
                    for batch in rtrain.data.range(30).iter_batches(batch_size=10, prefetch_batches=0):
                        pause(0.1)
                        yield batch["id"]

            begun = time.monotonic()
            for batch in rt.prepare_data_loader(DataLoader(Slow(), None)):
                pass
            took_ms = (time.monotonic() - begun) * 1000
            print(took_ms)
            """
        )
    )
    took_ms = float(worker.line())
    agent.wait(lambda: waited(agent).get("data_wait_ms", -1) >= 290)
    assert waited(agent)["data_wait_ms"] <= took_ms
    worker.go()
    worker.finish()


def test_reports_are_barriers_and_those_with_files_are_checkpoints(agent, start, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    (files / "state").write_text("1")
    worker = start(
        script(
            f"""
            for _ in range(5):
                t.report({{"loss": 1}})
            t.report({{"loss": 1}}, checkpoint=t.Checkpoint({str(files)!r}))
            """
        )
    )
    assert worker.line() == "read"
    agent.wait(lambda: waited(agent).get("barrier_waits", 0) == 5)
    assert waited(agent)["barrier_wait_ms"] >= 0 and waited(agent)["checkpoint_wait_ms"] >= 0
    worker.go()
    worker.finish()


def test_a_rank_waits_in_a_report_for_one_that_comes_late(agent, start):
    agent.world_size = 2
    early = start(script("t.report({})"), rank=0)
    agent.wait(lambda: any(frame["type"] == "report" for frame in agent.heard))
    late = start(script("pause(0.5); t.report({})"), rank=1)
    assert early.line() == late.line() == "read"

    def barrier_heartbeat(rank):
        pulses = [frame for frame in agent.heard if frame["type"] == "pulse" and frame["from"] == rank]
        return pulses[-1] if pulses and pulses[-1].get("barrier_waits") else None

    agent.wait(lambda: barrier_heartbeat(0) is not None and barrier_heartbeat(1) is not None)
    assert barrier_heartbeat(0)["barrier_wait_ms"] >= 500 > barrier_heartbeat(1)["barrier_wait_ms"]
    for worker in (early, late):
        worker.go()
        worker.finish()


def test_nothing_is_measured_where_no_agent_listens():
    from rtrain import _waits

    batches = iter([1, 2])
    assert _waits.measured(batches) is batches
    assert _waits.barrier_wait() is None


def test_a_loop_that_is_left_early_closes_its_batches(monkeypatch):
    from rtrain import _waits

    reported, closed = [], []

    def batches():
        try:
            yield from range(3)
        finally:
            closed.append(True)

    monkeypatch.setattr(_waits, "_tell", lambda name: reported.append)
    measured = _waits.measured(batches())
    assert next(measured) == 0
    measured.close()
    assert closed == [True]

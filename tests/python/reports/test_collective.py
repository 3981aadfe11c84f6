"""Collectives and the session behind the calls."""

import pathlib
import subprocess
import sys


def test_rank_zero_s_object_reaches_every_rank_and_the_barrier_holds(agent, start):
    agent.world_size = 2
    script = """
        import rtrain.train as t
        from rtrain.train import collective
        rank = t.get_context().get_world_rank()
        print(len(collective.broadcast_from_rank_zero({"rank": rank, "text": "x" * 5000})["text"]))
        print(collective.broadcast_from_rank_zero({"rank": rank})["rank"])
        collective.barrier()
        """
    first, second = start(script, rank=0), start(script, rank=1)
    assert first.finish() == second.finish() == "5000\n0\n"


def test_what_is_larger_than_a_frame_travels_in_pieces(agent, start):
    out = start(
        """
        from rtrain.train import collective
        from rtrain.train._session import _cluster
        _cluster._PIECE = 1000
        print(len(collective.broadcast_from_rank_zero("y" * 100_000)))
        """
    ).finish()
    assert out == "100000\n"
    assert len(agent.frames("broadcast")) > 100


def test_a_session_of_another_mode_stands_behind_the_same_calls(tmp_path):
    import subprocess
    import sys

    from conftest import clean_environment

    script = """
from rtrain.train import _session, get_context, report
class Mine:
    facts = _session.Facts(world_size=3, world_rank=2, experiment_name="mine")
    def report(self, call):
        print(call.metrics, call.directory)
with _session.use(Mine()):
    report({"loss": float("inf")})
    print(get_context().get_world_rank(), get_context().get_experiment_name())
try:
    report({})
except RuntimeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], env=clean_environment(), capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[:2] == ["{'loss': inf} None", "2 mine"], done.stderr
    assert "cannot be used outside of an rtrain training function" in lines[2]


ENDS_WHILE_IT_ASKS = """
import sys, threading
from rtrain.train._session import _collective_limit

class Asked:
    asked = threading.Event()

    class facts:
        world_rank = 0

    def leave_word(self):
        self.asked.set()
        threading.Event().wait(1)  # as a request to the head
        print("answered", flush=True)

with _collective_limit.Watch().over(Asked()):
    assert Asked.asked.wait(60)
print("ends", flush=True)
"""


def test_a_request_to_the_head_ends_before_the_interpreter_does():
    """If an interpreter frees OpenSSL during a thread's request, the process aborts, and the worker would count as
    failed.
    """
    environment = {
        "PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[3] / "runtime" / "python"),
        "RTRAIN_TRAIN_COLLECTIVE_WARN_INTERVAL_S": "0.4",
    }
    done = subprocess.run(
        [sys.executable, "-c", ENDS_WHILE_IT_ASKS], env=environment, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout.split()) == (0, ["ends", "answered"]), done.stderr

"""The end of a worker of `fit()` after its loop has returned. The process names the threads that it waits for, and
waits for a limited time.
"""

import os
import subprocess
import sys
import textwrap

import pytest
from conftest import clean_environment

BEGIN = """
import atexit, multiprocessing, os, sys, threading, time
from rtrain.train._workers import _ending
_ending.NAMED_S = 0.3

"""


def ended(script: str, code: int = 0, grace_ms: int = 300) -> tuple[int, str, str]:
    """Returns the exit status and the output of a script that ends as a worker does."""
    environment = {**clean_environment(), "RANK": "3", "RTRAIN_STOP_GRACE_MS": str(grace_ms)}
    text = BEGIN + textwrap.dedent(script) + f"\n_ending.leave({code})\n"
    done = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_a_thread_that_hangs_is_named_and_ended_after_the_grace():
    code, _, errors = ended(
        """
        def pump():
            while True:
                threading.Event().wait(0.01)

        threading.Thread(target=pump, name="uploader").start()
        """
    )
    named, last = errors.splitlines()
    assert code == 0
    assert named.startswith(
        "rtrain: rank 3: the loop has returned, and for 0.3 s the process has been held by thread 'uploader' at <string>:"
    )
    assert "in pump" in named and named.endswith("it ends in 0.3 s all the same")
    assert last.startswith("rtrain: rank 3: the process ends now, though it is still held by thread 'uploader'")


def test_threads_and_functions_at_exit_that_end_in_time_are_waited_for_without_a_word():
    code, out, errors = ended(
        """
        threading.Thread(target=lambda: (threading.Event().wait(0.1), print("thread"))).start()
        atexit.register(print, "at exit")
        """,
        code=7,
    )
    assert (code, out, errors) == (7, "thread\nat exit\n", "")


def test_one_that_ends_within_the_grace_is_named_and_waited_for():
    code, out, errors = ended(
        "threading.Thread(target=lambda: (threading.Event().wait(0.6), print('done'))).start()", grace_ms=30_000
    )
    assert (code, out) == (0, "done\n")
    assert len(errors.splitlines()) == 1


def test_a_function_at_exit_that_hangs_is_named():
    code, _, errors = ended(
        """
        def close():
            threading.Event().wait()

        atexit.register(close)
        """
    )
    assert code == 0
    assert "held by what is called at exit, at <string>:" in errors and "in close" in errors


def test_a_child_process_that_is_waited_for_is_named():
    code, _, errors = ended(
        """
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3,), name="helper")
        child.start()
        """
    )
    assert code == 0
    assert "child process 'helper' (pid " in errors


def test_a_child_that_keeps_the_outputs_open_does_not_hold_the_process():
    reading, writing = os.pipe()
    try:
        script = f"import subprocess; subprocess.Popen(['sleep', '5'], stdout={writing}); "
        text = BEGIN + script + "_ending.leave(0)"
        done = subprocess.run([sys.executable, "-c", text], env=clean_environment(), pass_fds=(writing,), timeout=60)
        assert done.returncode == 0
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("how", ["open(path, 'w')", "open(path, 'wb', buffering=1 << 16)"])
def test_files_that_are_still_open_are_written(tmp_path, how):
    path = tmp_path / "metrics.txt"
    text = "b'the last line'" if "wb" in how else "'the last line'"
    assert ended(f"path = {str(path)!r}\nkept = {how}\nkept.write({text})")[0] == 0
    assert path.read_text() == "the last line"


def test_a_destructor_that_hangs_at_the_interpreter_s_end_does_not_run():
    code, out, _ = ended(
        """
        class Group:  # as gloo's or a CUDA library's
            def __del__(self):
                threading.Event().wait()

        group = Group()
        print("the loop has returned")
        """
    )
    assert (code, out) == (0, "the loop has returned\n")


def test_a_thread_that_holds_a_file_s_lock_does_not_hold_the_process():
    reading, writing = os.pipe()
    try:
        text = BEGIN + (
            f"pipe = os.fdopen({writing}, 'w')\n"
            "def flood():\n    pipe.write('x' * (1 << 20)); pipe.flush()\n"
            "threading.Thread(target=flood, name='flood').start()\n_ending.leave(0)"
        )
        environment = {**clean_environment(), "RTRAIN_STOP_GRACE_MS": "100"}
        done = subprocess.run(
            [sys.executable, "-c", text], env=environment, pass_fds=(writing,), timeout=60, capture_output=True, text=True
        )
        assert done.returncode == 0 and "thread 'flood'" in done.stderr
    finally:
        os.close(reading)
        os.close(writing)

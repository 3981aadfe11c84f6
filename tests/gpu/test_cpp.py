"""Tests the group `cpp`: its worker compiles with the compiler alone and trains over Gloo. A separate file, since LibTorch's
headers take a minute of processor time without ccache.
"""

from gpu_check_run import checked


def test_the_cpp_worker_compiles_and_trains(tmp_path):
    rows = checked(["cpp"], tmp_path)
    assert [name for _, name in rows] == ["ddp_worker.cpp", "one worker", "two workers"]
    assert rows["cpp", "two workers"]["seen"].startswith("2 ranks by gloo on cpu")

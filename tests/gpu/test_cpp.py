"""The group `cpp`: its worker compiles by the compiler alone, and trains over Gloo. In a file of its own, since compiling LibTorch's
headers takes a minute of processor where ccache does not know them."""

from gpu_check_run import checked


def test_the_cpp_worker_compiles_and_trains(tmp_path):
    rows = checked(["cpp"], tmp_path)
    assert [name for _, name in rows] == ["ddp_worker.cpp", "one worker", "two workers"]
    assert rows["cpp", "two workers"]["seen"].startswith("2 ranks by gloo on cpu")

"""The choice between threads and processes, sealed memory, and who may be at the other end of a socket."""

import fcntl
import os
import socket
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from rtrain import data
from rtrain.data._block import Block
from rtrain.data._making import _cpus
from rtrain.data._making._processes import _blocks, _memory, _rule, _wire
from rtrain.data._making._processes._rule import (
    Limits,
    Machine,
    Work,
    more_pay,
    more_processes,
    most_processes,
    pays,
    processes_for,
    rows_of_part,
)

IDLE = Machine(cpus=2, idle=1.0, memory=1 << 40)
HOLDS = Work(spent_s=2.0, row_s=1e-3, row_cpu_s=1e-3, row_bytes=1000, speedup=1.0)  # a second thread brings nothing


def work(**changed):
    return Work(**{**vars(HOLDS), **changed})


def test_a_function_that_holds_the_interpreter_gets_a_process_for_each_idle_cpu():
    assert processes_for(Limits(), IDLE, HOLDS) == 2  # the CPU of the rank's thread is free then
    assert processes_for(Limits(), Machine(16, 15.0, 1 << 40), HOLDS) == 16
    assert processes_for(Limits(), Machine(16, 5.2, 1 << 40), HOLDS) == 6


@pytest.mark.parametrize(
    ("machine", "changes"),
    [
        (Machine(1, 1.0, 1 << 40), {}),  # a container with one CPU
        (Machine(1.5, 1.5, 1 << 40), {}),
        (Machine(2, 0.1, 1 << 40), {}),  # other programs use the second CPU
        (IDLE, {"speedup": None}),  # threads are being tried
        (IDLE, {"speedup": 1.9}),  # threads gain as much as processes would
        (IDLE, {"spent_s": 0.9}),  # a short dataset
        (IDLE, {"row_bytes": 1_000_000}),  # to move a row takes longer than to make it
        (IDLE, {"row_cpu_s": 0.0}),  # nothing was measured
        (Machine(2, 0.1, 1 << 40), {"row_s": 2e-3}),  # the thread waits for a CPU, not for the interpreter
    ],
)
def test_nothing_starts_where_processes_would_not_gain(machine, changes):
    assert processes_for(Limits(), machine, work(**changes)) == 0


def test_processes_take_over_where_threads_stop_to_scale():
    fourteen_threads = work(row_s=3.3e-3, row_cpu_s=3.3e-3, speedup=3.8)  # 1,147 images a second
    assert processes_for(Limits(), Machine(16, 11.0, 1 << 40), fourteen_threads) == 15


def test_a_loop_that_competes_for_the_interpreter_makes_one_process_gain():
    beside_a_loop = work(row_s=2e-3, row_cpu_s=1e-3)
    assert processes_for(Limits(), Machine(2, 0.6, 1 << 40), beside_a_loop) == 1


def test_what_the_user_says_bounds_the_processes():
    many = Machine(16, 15.0, 10 << 30)
    assert processes_for(Limits(asked=3), many, work(spent_s=0.2)) == 3
    assert processes_for(Limits(asked=3), many, work(spent_s=0.2, speedup=2.9)) == 0  # three threads do as much
    assert processes_for(Limits(asked=3), Machine(16, 0.0, 1 << 40), HOLDS) == 3
    assert processes_for(Limits(num_cpus=4), many, HOLDS) == 4
    assert processes_for(Limits(memory=3 << 30), many, HOLDS) == 3
    assert processes_for(Limits(processes=0), many, HOLDS) == 0
    assert processes_for(Limits(processes=5), many, work(speedup=None, spent_s=0.0)) == 5
    assert most_processes(Limits(asked=2, processes=5), many) == 2
    assert most_processes(Limits(processes=5), Machine(1, 1.0, 1 << 40)) == 0


def test_processes_are_kept_from_1_3_times_the_threads_on():
    assert pays(1301, HOLDS) and not pays(1299, HOLDS)
    assert pays(2601, work(speedup=2.0)) and not pays(2599, work(speedup=2.0))


def test_processes_that_work_all_the_time_grow_to_the_idle_cpus():
    assert more_processes(Limits(), Machine(16, 5.5, 1 << 40), 4, busy=0.9) == 8
    assert more_processes(Limits(), Machine(16, 2.5, 1 << 40), 4, busy=0.9) == 6
    assert more_processes(Limits(), Machine(4, 5.5, 1 << 40), 4, busy=0.9) == 4
    assert more_processes(Limits(), Machine(16, 5.5, 1 << 40), 4, busy=0.7) == 4
    assert more_processes(Limits(), Machine(16, 5.5, 1 << 20), 4, busy=0.9) == 4
    assert more_processes(Limits(asked=4), Machine(16, 5.5, 1 << 40), 4, busy=0.9) == 4
    assert more_pay((4, 100.0), (8, 130.0)) and not more_pay((4, 100.0), (8, 129.0))


def test_a_process_needs_memory_and_control_groups_bound_it():
    assert processes_for(Limits(), Machine(16, 15.0, 300 << 20), HOLDS) == 2
    assert 0 < _cpus.free_memory() < 1 << 62
    assert 0 < _cpus.cpus_of_rank() <= os.cpu_count()


def test_a_part_takes_so_long_and_keeps_whole_batches():
    assert rows_of_part(1000, 1, 1e-3, 0.1) == 100
    assert rows_of_part(1000, 64, 1e-3, 0.1) == 64
    assert rows_of_part(1000, 256, 1e-3, 0.1) == 256
    assert rows_of_part(50, 1, 1e-3, 0.1) == 50
    assert rows_of_part(1000, 0, 1e-3, 0.1) == 1000
    assert rows_of_part(1000, 1, 0.0, 0.1) == 1000
    assert _rule.GAIN == 1.3


def block_of_every_kind():
    images = np.arange(2 * 3 * 4 * 4, dtype=np.float32).reshape(2, 3, 4, 4)
    return Block(
        {
            "text": pa.chunked_array([["a", None]]),
            "image": images,
            "turned": np.asfortranarray(images[0, 0, :2]),
            "every": np.arange(8)[::4],
            "at": np.array(["2026-01-01", "2026-01-02"], "datetime64[s]"),
            "object": np.array([{"a": 1}, None], dtype=object),
            "numbers": pa.array([1, 2], pa.int16()),
        },
        frozenset({"numbers"}),
        "file.parquet",
    )


def test_a_block_arrives_as_it_was_and_may_be_written_into():
    block = block_of_every_kind()
    memory = _blocks.sealed(block, ("beside", 7))
    again, beside = _blocks.opened(memory)
    another, _ = _blocks.opened(memory)
    os.close(memory)
    assert beside == ("beside", 7)
    assert (again.names, again.without_nulls, again.origin) == (block.names, block.without_nulls, block.origin)
    for name, column in block.columns.items():
        if isinstance(column, np.ndarray):
            assert again.columns[name].dtype == column.dtype and again.columns[name].tolist() == column.tolist()
        else:
            assert again.columns[name].type == column.type and again.columns[name].to_pylist() == column.to_pylist()
    again.columns["image"][:] = 0
    assert another.columns["image"].tolist() == block.columns["image"].tolist()


def test_a_slice_of_a_table_sends_its_own_rows_alone():
    whole = Block({"text": pa.chunked_array([["x" * 1000] * 1000])})
    memory = _blocks.sealed(whole.slice(10, 12), None)
    assert os.fstat(memory).st_size < 10_000
    os.close(memory)


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW])
def test_memory_that_may_still_be_changed_is_refused(seals):
    sealed = _blocks.sealed(Block({"a": np.arange(3)}), None)
    content = os.pread(sealed, 1 << 20, 0)
    os.close(sealed)
    memory = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(memory, content)
    if seals:
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
    with pytest.raises(_memory.NotSealed, match="can still be changed"):
        _blocks.opened(memory)
    os.close(memory)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, (3).to_bytes(8, "little") + (1 << 40).to_bytes(8, "little") + bytes(24)])
def test_lengths_that_lead_beyond_the_memory_are_refused(content):
    memory = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(memory, content)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE)
    with pytest.raises(_memory.NotSealed):
        _memory.opened(memory)
    os.close(memory)


def test_a_file_is_refused(tmp_path):
    with open(tmp_path / "file", "wb+") as file, pytest.raises(_memory.NotSealed):
        _memory.opened(file.fileno())


def test_mappings_keep_no_descriptor_and_go_with_the_last_array():
    before = len(os.listdir("/proc/self/fd"))
    memory = _blocks.sealed(Block({"a": np.zeros(3 << 20)}), None)
    blocks = [_blocks.opened(memory)[0] for _ in range(5)]
    os.close(memory)
    assert len(os.listdir("/proc/self/fd")) == before
    assert mappings() == 5
    del blocks
    assert mappings() == 0


def mappings():
    with open("/proc/self/maps") as file:
        return sum("memfd:rtrain-data" in line for line in file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_peer_of_another_user_is_refused(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(tmp_path / "door"))
        listener.listen()
        os.chmod(tmp_path, 0o755)
        os.chmod(tmp_path / "door", 0o777)
        folder = os.open(tmp_path, os.O_DIRECTORY)
        code = (
            "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); "
            f"s.connect('/proc/self/fd/{folder}/door'); sys.stdin.read()"
        )
        stranger = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, pass_fds=[folder])
        try:
            listener.settimeout(20)
            peer, _ = listener.accept()
            with peer, pytest.raises(_wire.Stranger, match="of user 65534 is at the other end"):
                _wire.check_peer(peer)
        finally:
            stranger.stdin.close()
            stranger.wait()
            os.close(folder)


def test_a_peer_of_this_user_is_accepted_and_odd_messages_are_refused():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        _wire.check_peer(one)
        _wire.send(one, _wire.Kind.READY, 5)
        assert _wire.receive(other) == (_wire.Kind.READY, 5, None)
        before = len(os.listdir("/proc/self/fd"))
        for content, descriptors in (
            (b"x", []),
            (b"\xc8" + bytes(8), []),
            (b"\x01" + bytes(8), [0, 1]),
            (b"\x01" + bytes(8), [0] * 9),
        ):
            socket.send_fds(one, [content], descriptors)
            with pytest.raises(_wire.Stranger):
                _wire.receive(other)
        assert len(os.listdir("/proc/self/fd")) == before
        one.close()
        assert _wire.receive(other) is None


def test_strategies_and_resources_are_carried_out():
    ten = data.range(10)
    function = ten.map(lambda row: row, compute=data.TaskPoolStrategy(3), num_cpus=2, memory=5)._node.ops[0].fn
    assert (function.concurrency, function.num_cpus, function.memory, function.in_rank) == (3, 2.0, 5, False)
    assert ten.map(dict, compute=data.ActorPoolStrategy(min_size=1, max_size=4))._node.ops[0].fn.threads == 4
    assert ten.map(dict, compute=data.ActorPoolStrategy(size=2))._node.ops[0].fn.threads == 2
    with pytest.warns(DeprecationWarning, match="num_gpus"):
        assert ten.map_batches(lambda batch: batch, num_gpus=1)._node.ops[0].fn.in_rank
    for wrong in (
        {"compute": data.ActorPoolStrategy(2)},
        {"compute": data.TaskPoolStrategy(2), "concurrency": 2},
        {"num_cpus": -1},
    ):
        with pytest.raises(ValueError, match="map: "):
            ten.map(lambda row: row, **wrong)
    with pytest.raises(ValueError, match="a class needs ActorPoolStrategy"):
        ten.map(dict, compute=data.TaskPoolStrategy(2))
    with pytest.raises(TypeError, match="compute is 3"):
        ten.map(dict, compute=3)
    with pytest.raises(ValueError, match="max_size 2"):
        data.ActorPoolStrategy(min_size=3, max_size=2)
    with pytest.raises(ValueError, match="DataContext.processes is -1"):
        data.DataContext.get_current().processes = -1

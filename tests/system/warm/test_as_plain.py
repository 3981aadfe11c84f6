"""Compares a forked worker with a plain start of the same program, field by field: a shim and a keeper receive the same
order, without a cluster.
"""

import json
import os
import pathlib
import re
import select
import socket
import subprocess
import sys
import tempfile

import pytest
from local_cluster import wait_for

BINARY = os.environ.get("RTRAIN_BINARY", "build/dev/rtrain")
TEMPLATE = (pathlib.Path(__file__).parents[3] / "runtime" / "python" / "rtrain" / "_template.py").read_text()
PATIENCE_S = 120
MODULES = ["torch", "torch._dynamo", "holds"]
SHOW = """
import atexit, faulthandler, json, os, random, resource, signal, sys, threading
import numpy, torch
from threadpoolctl import threadpool_info
main = sys.modules["__main__"]
libraries = sorted((i["internal_api"], i["num_threads"]) for i in threadpool_info())
fields = {
    "argv": sys.argv, "orig_argv": sys.orig_argv, "executable": sys.executable, "prefix": sys.prefix, "path": sys.path,
    "flags": str(sys.flags), "warnoptions": sys.warnoptions, "xoptions": sys._xoptions, "recursion": sys.getrecursionlimit(),
    "main": main is __import__("__main__"), "name": __name__, "file": __file__, "package": __package__, "spec": str(__spec__ and __spec__.name),
    "loader": type(__loader__).__name__, "cached": __cached__ if "-m" not in sys.orig_argv else None,
    "names": sorted(n for n in vars(main) if n.startswith("__")),
    "cwd": os.getcwd(), "environ": dict(os.environ), "c_environ": dict(os.environb) == {os.fsencode(k): os.fsencode(v) for k, v in os.environ.items()},
    "child_environ": None, "umask": os.umask(0o022), "groups": os.getgroups(), "nice": os.nice(0),
    "signals": {s.name: str(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals if s not in (signal.SIGKILL, signal.SIGSTOP)},
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "limits": {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")},
    "affinity": sorted(os.sched_getaffinity(0)), "session": os.getsid(0) == os.getpid() == os.getpgrp(), "comm": open("/proc/self/comm").read(),
    "oom_score": open("/proc/self/oom_score_adj").read(),
    "stdout": [sys.stdout.line_buffering, sys.stdout.write_through, sys.stdout.encoding, sys.stdout.errors, sys.stdout.isatty(), sys.stdout.name],
    "stderr": [sys.stderr.line_buffering, sys.stderr.write_through, sys.stderr.encoding, sys.stderr.errors, sys.stderr.name],
    "faulthandler": faulthandler.is_enabled(), "threads": [t.name for t in threading.enumerate()], "hook": sys.excepthook is sys.__excepthook__,
    "torch_threads": torch.get_num_threads(), "interop": torch.get_num_interop_threads(), "torch_seed": torch.initial_seed() == 67280421310721,
    "parallel": torch.__config__.parallel_info(), "libraries": libraries, "in_fork": torch.cuda._is_in_bad_fork(),
    "grad": torch.is_grad_enabled(), "dtype": str(torch.get_default_dtype()), "sizes": sorted(set(map(type, []), ), key=str),
    "dumpable": __import__("ctypes").CDLL(None).prctl(3, 0, 0, 0, 0), "deathsig": None,
    "status": {l.split(":")[0]: l.split(":")[1].split() for l in open("/proc/self/status") if l.startswith(("Uid", "Gid", "NoNewPrivs", "Cap", "Seccomp", "SigIgn", "SigBlk", "CoreDumping"))},
}
import subprocess
fields["child_environ"] = sorted(subprocess.run(["env", "-0"], capture_output=True, text=True).stdout.split("\\0"))
fields["shown"] = [open(f"/proc/self/{n}", "rb").read().decode().rstrip("\\0").split("\\0") for n in ("environ", "cmdline")]
fields["descriptors"] = sorted(int(d) for d in os.listdir("/proc/self/fd"))[:3] + [len(os.listdir("/proc/self/fd"))]
fields["sum"] = float(torch.ones(1000, 1000).matmul(torch.ones(1000, 1000)).sum())
import holds, torch._dynamo.config, torch._inductor.config
fields["held"] = {name: str(value) for name, value in vars(holds).items() if name.isupper()}
for name in ("_dynamo.config.debug_dir_root", "_inductor.config.compile_threads"):
    module, _, setting = name.rpartition(".")
    module = sys.modules["torch." + module]
    fields[name] = [getattr(module, setting), module._is_default(setting) if hasattr(module, "_is_default") else None]
print(json.dumps(fields))
print("drawn", random.random(), numpy.random.random(), os.urandom(4).hex())
atexit.register(print, "at exit")
"""


HOLDS = """
import os, pathlib
ORIGINAL_DIR, HERE, BELOW, OTHER, TEXT = os.getcwd(), pathlib.Path.cwd(), os.path.join(os.getcwd(), "out"), "/proc", "in /proc/self"
"""


class Run:
    """The files, environment and results of one worker."""

    def __init__(self, folder: pathlib.Path, name: str, script: str, arguments: list[str], more: dict[str, str]) -> None:
        self.cwd = folder / "cwd"
        self.cwd.mkdir(exist_ok=True)
        (self.cwd / "train.py").write_text(script)
        (self.cwd / "package").mkdir(exist_ok=True)
        (self.cwd / "package" / "__init__.py").write_text("")
        (self.cwd / "package" / "train.py").write_text(script)
        (folder / "own").mkdir(exist_ok=True)
        if not (folder / "own" / "holds.py").exists():
            (folder / "own" / "holds.py").write_text(HOLDS)
        self.directory = folder / name
        self.directory.mkdir()
        self.out, self.err = self.directory / "out", self.directory / "err"
        self.program = [sys.executable, *arguments]
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": "/", "LANG": "C.UTF-8", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", "RANK": "0",
            "PYTHONPATH": str(folder / "own"), "PYTHONDONTWRITEBYTECODE": "1",
            "RTRAIN_ATTEMPT": "as-plain-a1", "RTRAIN_NODE": "n1", **more,
        }  # fmt: skip

    def memory(self) -> int:
        memory = os.memfd_create("environment")
        os.write(memory, words(f"{name}={value}" for name, value in sorted(self.environment.items())))
        return memory

    def exit(self) -> dict[str, str]:
        wait_for(f"the end of {self.directory}", (self.directory / "exit").exists, PATIENCE_S, pause=0.005)
        return dict(line.split(" ", 1) for line in (self.directory / "exit").read_text().splitlines())


def words(texts) -> bytes:
    return b"".join(os.fsencode(text) + b"\0" for text in texts)


def started_with(descriptors: dict[int, int], arguments: list[str]) -> subprocess.Popen:
    """Starts the binary with these descriptors at these numbers and an empty environment."""
    high = {number: os.dup2(descriptor, 50 + number) for number, descriptor in descriptors.items()}
    moves = " ".join(f"{number}<&{one} {number}>&{one}" if number == 3 else f"{number}<&{one}" for number, one in high.items())
    closes = " ".join(f"{one}<&-" for one in high.values())
    shell = ["bash", "-c", f'exec "$@" {moves} {closes}', "bash", "env", "-i", BINARY, *arguments]
    process = subprocess.Popen(shell, pass_fds=tuple(high.values()), stdin=subprocess.DEVNULL)
    for one in high.values():
        os.close(one)
    return process


class Keeper:
    def __init__(self, folder: pathlib.Path, environment: dict[str, str], modules: list[str]) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        memory = os.memfd_create("environment")
        kept = {name: value for name, value in environment.items() if not name.startswith(("RTRAIN_", "RANK"))}
        os.write(
            memory,
            words(
                f"{name}={value}" for name, value in {**kept, "OMP_NUM_THREADS": "1", "RTRAIN_TEMPLATE_ROOM": "x" * 64000}.items()
            ),
        )
        self.log = folder / "template.log"
        arguments = ["__keeper", str(self.log), "-1", "-1", "-", "no-setuid", "--", sys.executable, "-c", TEMPLATE, *modules]
        self.process = started_with({3: theirs.fileno(), 4: memory}, arguments)
        theirs.close()
        os.close(memory)
        self.number = 0
        self.first = self.answer()

    def answer(self) -> str:
        assert select.select([self.socket], [], [], PATIENCE_S)[0], self.log.read_text()
        return self.socket.recv(1000).decode()

    def fork(self, run: Run, threads: int) -> str:
        self.number += 1
        marks = [f"{name}={run.environment[name]}" for name in ("RTRAIN_ATTEMPT", "RTRAIN_NODE", "RANK")]
        memory = run.memory()
        size = os.fstat(memory).st_size
        order = [self.number, run.directory, run.out, run.err, *marks, 0, threads, size, "--", run.cwd, *run.program]
        socket.send_fds(self.socket, [words(map(str, order))], [memory])
        os.close(memory)
        return self.answer()

    def end(self) -> None:
        self.socket.close()
        self.process.wait(PATIENCE_S)


def plain(run: Run) -> dict[str, str]:
    reading, writing = os.pipe()
    memory = run.memory()
    marks = [f"{name}={run.environment[name]}" for name in ("RTRAIN_ATTEMPT", "RTRAIN_NODE")]
    arguments = [
        "__shim",
        *map(str, (run.directory, run.out, run.err, run.cwd)),
        "-1",
        "-1",
        "-",
        "0",
        "no-setuid",
        *marks,
        "--",
        *run.program,
    ]
    shim = started_with({3: writing, 4: memory}, arguments)
    for descriptor in (reading, writing, memory):
        os.close(descriptor)
    assert shim.wait(PATIENCE_S) == 0
    return run.exit()


def both(folder: pathlib.Path, script: str, arguments: list[str], processors: str, **more: str) -> list[Run]:
    runs = [Run(folder, name, script, arguments, more) for name in ("plain", "warm")]
    for run in runs:
        (run.directory / "place").write_text(f"processors {processors}\n")
    plain(runs[0])
    keeper = Keeper(folder, runs[1].environment, MODULES)
    assert keeper.first.startswith("ready "), keeper.first
    assert keeper.fork(runs[1], int(more.get("OMP_NUM_THREADS", "1"))).startswith("started ")
    runs[1].exit()
    keeper.end()
    return runs


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield pathlib.Path(path)


PROGRAMS = {"script": ["train.py", "--lr", "0.1"], "module": ["-m", "package.train", "--lr", "0.1"]}


@pytest.mark.parametrize(("form", "threads", "count"), [("script", "2", None), ("module", "1", 1)])
def test_a_program_sees_what_it_sees_after_a_plain_start(folder, form, threads, count):
    """Compares everything but intended differences: pids, memory, preloaded modules."""
    processors = sorted(os.sched_getaffinity(0))[:count]
    runs = both(folder, SHOW, PROGRAMS[form], ",".join(map(str, processors)), OMP_NUM_THREADS=threads, COLOUR="blue")
    seen = [json.loads(run.out.read_text().splitlines()[0]) for run in runs]
    for name in seen[0]:
        assert seen[1][name] == seen[0][name], name
    assert seen[0]["environ"]["COLOUR"] == "blue"
    assert seen[0]["torch_threads"] == int(threads)
    assert seen[0]["held"]["ORIGINAL_DIR"] == str(runs[0].cwd)
    assert seen[0]["_inductor.config.compile_threads"][0] == min(32, len(processors))
    random_numbers = [run.out.read_text().splitlines()[1] for run in runs]
    assert random_numbers[0] != random_numbers[1]
    assert [run.out.read_text().splitlines()[2:] for run in runs] == [["at exit"]] * 2
    assert [run.err.read_text() for run in runs] == ["", ""]


def test_two_workers_of_a_template_draw_different_numbers(folder):
    script = (
        "import random, numpy, os, tempfile, multiprocessing\n"
        "print(random.random())\nprint(numpy.random.random())\nimport torch\nprint(torch.initial_seed(), torch.rand(1))\nprint(multiprocessing.current_process().authkey.hex() if hasattr(multiprocessing.current_process().authkey, 'hex') else 0)\n"
    )
    runs = [Run(folder, name, script, ["train.py"], {}) for name in ("first", "second")]
    keeper = Keeper(folder, runs[0].environment, MODULES)
    assert [keeper.fork(run, 1).split()[0] for run in runs] == ["started", "started"]
    assert [run.exit()["code"] for run in runs] == ["0", "0"]
    lines = [run.out.read_text().splitlines() for run in runs]
    assert all(one != other for one, other in zip(*lines, strict=True)), lines
    keeper.end()


ENDS = {
    "end": "",
    "exit": "import sys\nsys.exit(7)",
    "exit with a text": "raise SystemExit('no data')",
    "exception": "def inner():\n    raise ValueError('no such file: x')\n\ntry:\n    inner()\nexcept ValueError as error:\n    raise RuntimeError('outer') from error",
    "interrupt": "raise KeyboardInterrupt",
    "signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "abort": "import os\nos.abort()",
    "_exit": "import os\nprint('lost?', end='')\nos._exit(9)",
    "own hook": "import sys\nsys.excepthook = lambda kind, value, trace: print('hook', kind.__name__, value, trace.tb_lineno)\nraise ValueError('x')",
    "syntax": "def (:",
    "thread": "import threading\nthreading.Thread(target=lambda: (threading.main_thread().join(), print('last'))).start()",
    "buffered": "import sys\nprint('a' * 100)\nsys.stdout.flush()\nprint('b')",
}


@pytest.fixture(scope="module")
def shared():
    with tempfile.TemporaryDirectory() as path:
        folder = pathlib.Path(path)
        keeper = Keeper(folder, Run(folder, "first", "", ["train.py"], {}).environment, MODULES)
        yield folder, keeper
        keeper.end()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("form", PROGRAMS)
def test_a_program_ends_as_after_a_plain_start(shared, end, form):
    folder, keeper = shared
    runs = [Run(folder, f"{kind}-{form}-{end}", ENDS[end], PROGRAMS[form], {}) for kind in ("plain", "warm")]
    plain(runs[0])
    assert keeper.fork(runs[1], 1).startswith("started ")
    ends = [run.exit() for run in runs]
    for name in ("code", "signal", "error"):
        assert ends[0].get(name) == ends[1].get(name), name
    assert runs[0].out.read_text() == runs[1].out.read_text()
    assert runs[0].err.read_text() == runs[1].err.read_text()


def test_the_first_step_of_a_fork_needs_no_import(shared):
    """Runs a model, its backward pass and an optimizer step: the fork works and misses no thread of the template."""
    folder, keeper = shared
    script = (
        "import torch, os\nmodel = torch.nn.Linear(64, 64)\nopt = torch.optim.AdamW(model.parameters())\n"
        "for _ in range(3):\n    opt.zero_grad(); model(torch.ones(512, 64)).square().mean().backward(); opt.step()\n"
        "print(model.weight.sum().item() != 0, len(list(torch.utils.data.DataLoader(torch.arange(8), num_workers=2))))\n"
    )
    run = Run(folder, "step", script, ["train.py"], {"OMP_NUM_THREADS": "2"})
    assert keeper.fork(run, 2).startswith("started ")
    assert run.exit()["code"] == "0", run.err.read_text()
    assert re.fullmatch(r"True 8\n", run.out.read_text())


def test_a_fork_has_what_remote_calls_import_and_nothing_of_the_driver(shared):
    folder, keeper = shared
    package = pathlib.Path(__file__).parents[3] / "runtime" / "python"
    script = (
        f"import sys\nsys.path.insert(0, {str(package)!r})\nprint('cloudpickle' in sys.modules, 'encodings.idna' in sys.modules)\n"
        "import rtrain._remote._worker\nprint([n for n in ('_where', '_http', '_remote._options') if 'rtrain.' + n in sys.modules])\n"
    )
    run = Run(folder, "remote", script, ["train.py"], {})
    assert keeper.fork(run, 1).startswith("started ")
    assert run.exit()["code"] == "0", run.err.read_text()
    assert run.out.read_text() == "True True\n[]\n"

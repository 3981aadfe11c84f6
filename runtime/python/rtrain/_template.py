"""The template of warm workers: a process that has imported torch, and is forked when a worker is to start.

An agent's keeper (daemon/agent/warm/keeper.c) runs this text with `python -c`, as the user of the jobs, in the environment that the
jobs have before an attempt's own variables. Descriptor 3 leads to the keeper. The arguments are the modules to import.

  to the keeper    "ready" | "unfit WHY" once; to each order "pid N" | "no WHY" | "stale WHY": the files have changed
  from the keeper  WAIT_MS, THREADS, bytes of the environment, directories of the program, "--", working directory, program and arguments,
                   NUL-ended, with the descriptors of input, output, errors, start (a socket to the fork: "+" with the environment, which this
                   process never has: become the worker; "!": run the program) and status (an errno, then why: it could not become the
                   worker; 0: it is the worker, and again 0 when it runs the program next)

Standard library only, and nothing that stays in the worker: it becomes as it had been started by itself. docs/warm-workers.md."""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import importlib
import importlib.machinery
import os
import platform
import runpy
import signal
import socket
import sys
import time
import types
from typing import Any

KEEPER = 3
ROOM = "RTRAIN_TEMPLATE_ROOM"  # a variable that only takes room, which a worker's environment is written over
_PR_SET_PDEATHSIG, _PR_SET_MM, _PR_SET_MM_MAP = 1, 35, 14
_KEYCTL = {"x86_64": 250, "aarch64": 219}  # the system call
_OPENBLAS = ("", "64_")
# Modules that nearly every worker of rtrain's own imports first: connections to other hosts, and values of remote calls.
_OFTEN = ("encodings.idna", "cloudpickle")
_GPU_COUNTER = "libnvidia-ml.so"  # torch.cuda.device_count() loads it where the template belongs to workers with GPUs
_VISIBLE_GPUS = b"CUDA_VISIBLE_DEVICES"
_TORCH_SEED = 67280421310721  # the seed with which all processes begin in some versions of torch


class Area:
    """Where the kernel reads the arguments and the environment that it shows of this process."""

    def __init__(self) -> None:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b") ")[2].split()
        numbers = {name: int(fields[place - 3]) for name, place in _FIELDS.items()}
        self._numbers = numbers
        self.arguments = numbers["arg_end"] - numbers["arg_start"]
        self.environment = numbers["env_end"] - numbers["env_start"]

    def write(self, arguments: bytes, environment: bytes) -> None:
        numbers = dict(self._numbers)
        for name, size, data in (
            ("arg", self.arguments, arguments[: self.arguments - 1]),
            ("env", self.environment, environment),
        ):
            ctypes.memset(numbers[name + "_start"], 0, size)
            ctypes.memmove(numbers[name + "_start"], data, len(data))
            numbers[name + "_end"] = numbers[name + "_start"] + len(data)
        order = ("start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack")
        libc = ctypes.CDLL(None)
        libc.sbrk.restype = ctypes.c_void_p
        numbers["brk"] = libc.sbrk(0)
        words = [numbers[name] for name in (*order, "arg_start", "arg_end", "env_start", "env_end")]
        # struct prctl_mm_map; without it what is shown has zeros at its end, which readers skip
        layout = (ctypes.c_uint64 * 13)(*words, 0, 0xFFFFFFFF << 32)
        libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(layout), ctypes.c_ulong(ctypes.sizeof(layout)), 0)


_FIELDS = {"start_code": 26, "end_code": 27, "start_stack": 28, "start_data": 45, "end_data": 46, "start_brk": 47}
_FIELDS |= {"arg_start": 48, "arg_end": 49, "env_start": 50, "env_end": 51}  # fields of /proc/self/stat


def tell(text: str) -> None:
    os.write(KEEPER, text.replace("\n", " ").encode(errors="replace")[:400])


def import_all(modules: list[str]) -> str:
    """Imports the modules; why this process cannot be a template, or nothing."""
    name = ""
    try:
        for name in modules:
            importlib.import_module(name)
    except BaseException as error:  # whatever a module raises: a plain start shows it to its user
        return (
            f"import {name}: {type(error).__name__}: {error}"
            if name in ("torch", "torch._dynamo")
            else f"python.preload: import {name}: {type(error).__name__}: {error}"
        )
    for name in _OFTEN:
        with contextlib.suppress(Exception):  # not installed: the worker imports what it needs
            importlib.import_module(name)
    if "rtrain" in sys.modules:  # its import reads variables of the attempt
        return "python.preload imports rtrain, which each worker imports itself"
    if (count := len(os.listdir("/proc/self/task"))) != 1:  # noqa: PTH208
        return f"its modules have started {count - 1} threads, which no fork has"
    with open(f"/proc/self/task/{os.getpid()}/children", "rb") as children:  # noqa: PTH123
        if children.read():
            return "its modules have started processes"
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_initialized():
        return "its modules have made a CUDA context, which no fork can use"
    if any(path.rpartition("/")[2].startswith(_GPU_COUNTER) for path in mapped_files()):
        return "its modules have counted the GPUs when they were imported, and a worker may have others"
    return ""


def mapped_files() -> set[str]:
    """Paths of the files that are mapped into this process, its libraries among them."""
    with open("/proc/self/maps", "rb") as maps:  # noqa: PTH123
        paths = {os.fsdecode(line.rstrip(b"\n").partition(b"/")[2]) for line in maps}
    return {f"/{path}" for path in paths if path and not path.endswith(" (deleted)")}


def facts_of(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


class Files:
    """The files that a plain start would load, each with its inode, size and time."""

    def __init__(self) -> None:
        paths = {sys.executable, f"{sys.prefix}/pyvenv.cfg"}
        for module in list(sys.modules.values()):
            file = getattr(module, "__dict__", {}).get("__file__")
            if isinstance(file, str) and file.startswith("/"):
                paths.add(file)
        paths |= mapped_files()
        for folder in filter(None, sys.path):
            paths.add(folder)
            try:
                paths.update(f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".pth"))  # noqa: PTH208
            except OSError:
                continue
        self._before = {path: facts_of(path) for path in paths}
        self._names = {name.partition(".")[0] for name in sys.modules} - set(sys.builtin_module_names) - {"__main__"}

    def changed(self) -> str:
        return next((path for path, before in self._before.items() if facts_of(path) != before), "")

    def hidden_by(self, folder: str) -> str:
        """A file or package in `folder` that a plain start would import instead of a module that is here."""
        try:
            entries = os.listdir(folder)  # noqa: PTH208
        except OSError:
            return ""
        for entry in entries:
            stem = entry.partition(".")[0]
            path = f"{folder}/{entry}"
            if stem not in self._names:
                continue
            is_package = stem == entry and any(os.path.exists(f"{path}/__init__.{end}") for end in ("py", "pyc"))  # noqa: PTH110
            if is_package or entry.endswith((".py", ".pyc", ".so")):
                return path
        return ""


class Origin:
    """The values in modules that depend on the directory and the processors of the process that imported them: a worker has its own.

    The keeper starts the template in a directory whose name nothing has by chance (/proc/PID/net), so a value that begins with it was
    made from the working directory. Found are texts and paths in a module's names, and settings of torch."""

    def __init__(self) -> None:
        self._folder = os.getcwd()  # noqa: PTH109
        self._values: list[tuple[Any, str, Any]] = []
        if self._folder.startswith("/proc/"):
            for module in list(sys.modules.values()):
                self._look_at(getattr(module, "__dict__", {}))
        self._threads = self._compile_threads()

    def _look_at(self, names: Any) -> None:
        if not isinstance(names, dict):
            return
        for name, value in list(names.items()):
            if self._is_here(value):
                self._values.append((names, name, value))
            elif name == "_config" and isinstance(value, dict):
                self._look_at(value)
            elif self._is_here(default := getattr(value, "__dict__", {}).get("default") if _is_setting(value) else None):
                self._values.append((value.__dict__, "default", default))

    def _is_here(self, value: Any) -> bool:
        paths = _loaded("pathlib")
        if paths and isinstance(value, paths.PurePath):
            value = str(value)
        return type(value) is str and value.startswith(self._folder) and value[len(self._folder) :][:1] in ("", "/")

    def _compile_threads(self) -> Any:
        """torch's setting, where it is as torch has chosen it; its number of now."""
        config = _loaded("torch._inductor.config")
        setting = getattr(config, "__dict__", {}).get("_config", {}).get("compile_threads")
        if not _is_setting(setting) or not hasattr(config, "decide_compile_threads"):
            return None
        return setting if setting.default == config.decide_compile_threads() else None

    def leave(self) -> None:
        """Makes them those of this process."""
        here = os.getcwd()  # noqa: PTH109
        for names, name, value in self._values:
            names[name] = type(value)(here + str(value)[len(self._folder) :])
        if self._threads:
            self._threads.default = sys.modules["torch._inductor.config"].decide_compile_threads()


def _is_setting(value: Any) -> bool:
    return type(value).__name__ == "_ConfigEntry"


class Order:
    def __init__(self, message: bytes, descriptors: list[int]) -> None:
        words = [os.fsdecode(word) for word in message.split(b"\0")[:-1]]
        self.wait_s, self.threads, self.environment_bytes = int(words[0]) / 1000, int(words[1]), int(words[2])
        first = words.index("--")
        self.folders = words[3:first]
        self.cwd, self.program = words[first + 1], words[first + 2 :]
        self.input, self.output, self.errors, self.start, self.status = self.descriptors = descriptors

    def script(self) -> str:
        return "" if self.program[1] == "-m" else self.program[1]

    def first_folder(self) -> str:
        """Returns the entry that becomes sys.path[0]."""
        script = self.script()
        return os.path.dirname(os.path.realpath(f"{self.cwd}/{script}")) if script else os.path.realpath(self.cwd)  # noqa: PTH120


class Template:
    def __init__(self) -> None:
        os.environ.pop(ROOM, None)
        self._area = Area()
        self._keeper = os.getppid()
        self._umask = os.umask(0o022)
        os.umask(self._umask)
        if not getattr(sys.flags, "safe_path", False) and sys.path[:1] == [""]:
            del sys.path[0]  # the entry of `-c`

    def serve(self, modules: list[str]) -> Order | None:
        """The order of a worker, in its own process; nothing when the keeper has no more of them."""
        before = dict(os.environb)
        if why := import_all(modules):
            tell("unfit " + why)
            return None
        if os.environb.get(_VISIBLE_GPUS) != before.get(_VISIBLE_GPUS):
            tell("unfit its modules have set CUDA_VISIBLE_DEVICES when they were imported, and a worker has its own")
            return None
        # torch._dynamo names a directory below TMPDIR, and names it anew when the worker needs it.
        self._set_by_imports = {
            name: value for name, value in os.environb.items() if before.get(name) != value and name != b"TORCHINDUCTOR_CACHE_DIR"
        }
        self._files = Files()
        self._origin = Origin()
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)
        self._socket = socket.socket(fileno=KEEPER)
        tell("ready")
        while order := self._next():
            if self._fork(order):
                self._socket.detach()
                os.close(KEEPER)
                return order
            for descriptor in order.descriptors:
                os.close(descriptor)
        return None

    def _next(self) -> Order | None:
        numbers = array.array("i")
        message, control, _, _ = self._socket.recvmsg(1 << 17, socket.CMSG_SPACE(16 * numbers.itemsize))
        for level, kind, data in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
        return Order(message, list(numbers)) if message else None

    def _fork(self, order: Order) -> bool:
        """Whether this is the worker's process. The child of a child that has ended belongs to the keeper."""
        if why := self._unfit_for(order):
            tell("no " + why)
            return False
        reading, writing = os.pipe()
        middle = os.fork()
        if middle == 0:
            child = -1
            try:
                child = os.fork()
                if child > 0:
                    os.write(writing, str(child).encode())
            finally:
                if child != 0:
                    os._exit(0)
        os.close(writing)
        if middle == 0:
            os.close(reading)
            return True
        changed = self._files.changed()  # meanwhile: the fork becomes no worker before it is named
        os.waitpid(middle, 0)
        pid = os.read(reading, 32).decode()
        os.close(reading)
        if changed:
            tell(f"stale {changed} has changed")
        else:
            tell(f"pid {pid}" if pid else "no its process could not be forked")
        return False

    def _unfit_for(self, order: Order) -> str:
        if order.environment_bytes >= self._area.environment:
            return f"its environment is larger than {self._area.environment >> 10} KiB"
        if len(os.listdir("/proc/self/task")) != 1:  # noqa: PTH208
            return "the template has threads"
        script = order.script()
        if script and not (script.endswith(".py") and os.path.isfile(os.path.join(order.cwd, script))):  # noqa: PTH113, PTH118
            return f"{script} is no file of Python's"
        for folder in dict.fromkeys([order.first_folder(), *order.folders]):
            if hidden := self._files.hidden_by(folder):
                return f"{hidden} hides a module that the template has"
        return ""

    def become(self, order: Order) -> Program:
        """Makes this child the worker: what may fail is done before the keeper writes it down. It does not return where it may not be one."""
        start = socket.socket(fileno=order.start)
        message, environment, _, _ = socket.recv_fds(start, 1, 1)
        if message != b"+" or len(environment) != 1:
            os._exit(1)
        libc = ctypes.CDLL(None)
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != self._keeper:
            os._exit(1)
        if call := _KEYCTL.get(platform.machine()):
            libc.syscall(call, 1, None, 0, 0, 0)  # a session keyring of its own
        for place, descriptor in enumerate((order.input, order.output, order.errors)):
            os.dup2(descriptor, place)
        os.umask(self._umask)
        program = None
        failed, why = 0, ""
        try:
            os.chdir(order.cwd)
            self._take_environment(order, environment[0])
            _refuse_begun_cuda()
            _take_threads(order.threads)
            _seed_anew()
            self._origin.leave()
            program = Program(order)
        except BaseException as error:  # a plain start takes its place
            failed, why = getattr(error, "errno", None) or errno.EIO, f"{type(error).__name__}: {error}"
        os.write(order.status, failed.to_bytes(4, sys.byteorder) + why.encode(errors="replace")[:150])
        if not program or start.recv(1) != b"!":  # the program runs where its worker is written down, and only there
            os._exit(127)
        os.write(order.status, bytes(4))
        start.detach()
        for descriptor in (*order.descriptors, environment[0]):
            os.close(descriptor)
        _await_store(order.wait_s)
        return program

    def _take_environment(self, order: Order, environment: int) -> None:
        data = os.pread(environment, order.environment_bytes, 0)
        os.environ.clear()
        for word in data.split(b"\0")[:-1]:
            name, _, value = word.partition(b"=")
            os.environb[name] = value
        for name, value in self._set_by_imports.items():
            if name not in os.environb:
                os.environb[name] = value
        self._area.write(b"".join(os.fsencode(word) + b"\0" for word in order.program), data)


def _await_store(most_s: float) -> None:
    """Until rank 0 of this node listens for the others, which takes a fork a moment; elsewhere as long as after a plain start."""
    port = os.environ.get("MASTER_PORT", "")
    end = time.monotonic() + most_s
    while (left := end - time.monotonic()) > 0:
        if os.environ.get("GROUP_RANK") != "0" or not (port.isascii() and port.isdigit()):
            return time.sleep(left)
        if _listens(f":{int(port):04X}"):
            return None
        time.sleep(min(left, 0.003))
    return None


def _listens(port: str) -> bool:
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/net/{table}") as file:  # noqa: PTH123
                fields = [line.split()[1:4:2] for line in file]
        except OSError:
            continue
        if any(state == "0A" and address.endswith(port) for address, state in fields[1:]):
            return True
    return False


def _take_threads(count: int) -> None:
    """Applies OMP_NUM_THREADS as a plain start does."""
    if count == 1:
        return  # as the template has it
    if torch := _loaded("torch"):
        torch.set_num_threads(count)
    most = min(count, len(os.sched_getaffinity(0)))
    for path in sorted(mapped_files()):
        if "openblas" not in os.path.basename(path):  # noqa: PTH119
            continue
        library = ctypes.CDLL(path)
        for start in ("", "scipy_"):
            for end in _OPENBLAS:
                if setter := getattr(library, f"{start}openblas_set_num_threads{end}", None):
                    setter(most)


def _refuse_begun_cuda() -> None:
    """RuntimeError where the template has begun to use CUDA: PyTorch would refuse the GPU to this fork."""
    torch = _loaded("torch")
    if torch and torch.cuda._is_in_bad_fork():
        raise RuntimeError("its modules have asked CUDA for GPUs when they were imported")


def _loaded(name: str) -> Any:
    return sys.modules.get(name)


def _seed_anew() -> None:
    """Makes the random seeds of a new process. `random` does so itself after a fork."""
    if (torch := _loaded("torch")) and torch.initial_seed() != _TORCH_SEED:
        torch.default_generator.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    if process := _loaded("multiprocessing.process"):
        process.current_process().authkey = os.urandom(32)
    if temporary := _loaded("tempfile"):
        before, temporary.tempdir = temporary.tempdir, None
        dynamo = _loaded("torch._dynamo.config")
        if before and dynamo and str(dynamo.debug_dir_root).startswith(before + "/"):
            dynamo.debug_dir_root = temporary.gettempdir() + dynamo.debug_dir_root[len(before) :]
    if logging := _loaded("logging"):
        logging._startTime = time.time_ns() if sys.version_info >= (3, 13) else time.time()


class Program:
    """The program as `python SCRIPT` or `python -m MODULE` runs it: what may fail on the way to its first line is done here."""

    def __init__(self, order: Order) -> None:
        self._module = "" if order.script() else order.program[2]
        self._path = os.path.join(order.cwd, order.script())  # noqa: PTH118
        self._text = b"" if self._module else self._read()
        if not getattr(sys.flags, "safe_path", False):
            sys.path.insert(0, order.first_folder())
        sys.orig_argv = list(order.program)
        sys.argv = ["-m", *order.program[3:]] if self._module else order.program[1:]
        main = types.ModuleType("__main__")
        main.__dict__.update(__builtins__=sys.modules["builtins"], __annotations__={})
        if not self._module:
            loader = importlib.machinery.SourceFileLoader("__main__", self._path)
            main.__dict__.update(__file__=self._path, __cached__=None, __loader__=loader)
        self._main = sys.modules["__main__"] = main

    def _read(self) -> bytes:
        with open(self._path, "rb") as file:  # noqa: PTH123
            return file.read()

    def run(self) -> None:
        """An exception shows the program's own frames alone."""
        try:
            if self._module:
                runpy._run_module_as_main(self._module)  # type: ignore[attr-defined]
            else:
                exec(compile(self._text, self._path, "exec", dont_inherit=True), self._main.__dict__)  # noqa: S102
        except SystemExit:
            raise
        except BaseException:
            hide_frames()
            raise


def hide_frames() -> None:
    """The hook of uncaught exceptions gets the traceback from the program's first frame on."""
    hook = sys.excepthook

    def shown(kind: type[BaseException], value: BaseException, trace: types.TracebackType | None) -> None:
        sys.excepthook = hook
        while trace and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        hook(kind, value.with_traceback(trace), trace)

    sys.excepthook = shown


def main() -> None:
    template = Template()
    order = template.serve(sys.argv[1:])
    if order is None:
        os._exit(0)
    template.become(order).run()


if __name__ == "__main__":
    main()

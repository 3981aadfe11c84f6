"""Chooses the cluster that this process uses: `init`, `shutdown`, `is_initialized`.

`init` sets RTRAIN_* variables of this process, so that the package, and programs that it starts, use the same cluster. `shutdown`
restores them."""

from __future__ import annotations

import atexit
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rtrain import _arguments, _requirements, _runtime_env
from rtrain._http import Head, HeadError, Unreachable
from rtrain._lazy import public_in
from rtrain._local_cluster import LocalCluster
from rtrain._settings import SYSTEM_FILE, Place, current_place, read_yaml, split_address, user_file

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rtrain._argument_types import InitArguments

_VARIABLES = ("RTRAIN_ADDRESS", "RTRAIN_TOKEN", "RTRAIN_CA", "RTRAIN_CA_FINGERPRINT", "RTRAIN_CONTEXT", "RTRAIN_CONFIG")
_LOOPBACK = ("127.", "localhost", "::1")


@dataclass
class ClusterInfo:
    """The cluster that `init` connected to. `with rtrain.init():` disconnects at the block's end."""

    address: str
    local: bool
    storage: str = ""  # directory of a local cluster's runs
    runtime_env: dict[str, Any] = field(default_factory=dict)

    @property
    def address_info(self) -> dict[str, str]:
        return {"address": self.address, "gcs_address": self.address}

    def disconnect(self) -> None:
        shutdown()

    def __enter__(self) -> ClusterInfo:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        shutdown()


@dataclass
class _Connection:
    info: ClusterInfo
    pid: int
    before: dict[str, str | None]
    cluster: LocalCluster | None
    prints: bool = True


_connection: _Connection | None = None


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: Mapping[str, float] | None = None,
    ignore_reinit_error: bool = False,
    runtime_env: Mapping[str, Any] | None = None,
    storage_path: str | os.PathLike[str] | None = None,
    log_to_driver: bool = True,
    **others: Unpack[InitArguments],
) -> ClusterInfo:
    """Connects this process to a cluster.

    address: "host:port" is the head there; a context, or RTRAIN_TOKEN and RTRAIN_CA, must give access to it. "local" starts
    a cluster on this machine that ends with this process, with its runs in ~/rtrain_results. "auto" takes the current
    context or RTRAIN_ADDRESS, and never starts a cluster. None does the same, but starts a cluster like "local" if there is
    no context, or if it names a stopped cluster of this machine.
    num_cpus, num_gpus, resources: of the started cluster; by default those of the machine.
    ignore_reinit_error: a second `init` does nothing instead of raising RuntimeError.
    runtime_env: {"env_vars": {...}, "working_dir": path} for runs that this process submits. A run's own worker_runtime_env
    wins, variable by variable. Remote calls get both too. A run that a run's program submits inherits the variables, secrets
    (by name) and code of that run, and this wins over them.
    storage_path: directory of a started cluster's runs.
    log_to_driver: whether this process shows the output of workers, remote functions and actors.

    Raises ConnectionError if no cluster answers; LocalClusterError if none can be started; TypeError for an unknown option;
    ValueError for unsupported parts of runtime_env; ModuleNotFoundError, with the packages to install, if a required one is
    missing.
    """
    global _connection
    _arguments.check("rtrain.init", others, _arguments.INIT)
    _requirements.check("cloudpickle")
    environment = _runtime_env.checked(runtime_env, "rtrain.init(runtime_env=)")
    if _connection is not None and _connection.pid == os.getpid():
        if ignore_reinit_error:
            return _connection.info
        raise RuntimeError(
            f"rtrain.init() was called before: this process is connected to {_connection.info.address}; call "
            "rtrain.shutdown() first, or pass ignore_reinit_error=True"
        )
    wishes = {**({} if num_cpus is None else {"CPU": num_cpus}), **({} if num_gpus is None else {"GPU": num_gpus})}
    _connection = _connect(address, {**wishes, **(resources or {})}, storage_path, environment)
    _connection.prints = log_to_driver
    return _connection.info


def is_initialized() -> bool:
    """Returns whether this process is connected to a cluster. `fit()` and remote calls connect it by themselves."""
    return _connection is not None and _connection.pid == os.getpid()


def shutdown() -> None:
    """Ends this process's connection, and the cluster that `init` started for it. Does nothing without a connection."""
    global _connection
    if _connection is None:
        return
    ended, _connection = _connection, None
    if ended.pid != os.getpid():
        return  # the cluster belongs to the parent of this forked child
    from rtrain import _closing

    _closing.run()
    if ended.cluster is not None:
        ended.cluster.stop()
    for name, value in ended.before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


atexit.register(shutdown)


def ensure() -> ClusterInfo:
    """Returns the connection. Connects with the defaults if there is none."""
    return init(ignore_reinit_error=True)


def has_own_cluster() -> bool:
    """Returns whether `init` has started the cluster of this process."""
    return _connection is not None and _connection.cluster is not None


def shows_prints() -> bool:
    """Returns `init(log_to_driver=)`: whether this process shows the output of its runs."""
    return _connection is None or _connection.prints


def runtime_env() -> dict[str, Any]:
    """Returns the runtime_env of runs that this process submits: that of `init` over that of the run which this process belongs to."""
    return _runtime_env.merged(_runtime_env.inherited(), _connection.info.runtime_env if _connection is not None else None)


def _connect(address: str | None, wishes: dict[str, float], storage: Any, environment: dict[str, Any]) -> _Connection:
    before = {name: os.environ.get(name) for name in _VARIABLES}
    if address == "local":
        return _start_local(wishes, storage, environment, before)
    if address not in (None, "auto"):
        _point_to(str(address))
    elif address is None and _has_no_cluster():
        return _start_local(wishes, storage, environment, before)
    try:
        head = Head.current()
        head.get("/v1/status")
    except HeadError as error:
        _put_back(before)
        raise ConnectionError(f"rtrain.init(address={address!r}): {error}") from error
    if wishes:
        warnings.warn(
            f"num_cpus, num_gpus and resources are for a cluster that init() starts; the one at {head.place.address} has its own",
            stacklevel=4,
        )
    return _Connection(ClusterInfo(head.place.address, local=False, runtime_env=environment), os.getpid(), before, None)


def _has_no_cluster() -> bool:
    """Returns true if no cluster is configured, or only one on this machine that has stopped."""
    place = current_place()
    if place is None:
        return True
    if not place.host_port[0].startswith(_LOOPBACK):
        return False
    try:
        Head(place).get("/v1/status")
    except Unreachable:
        _say(f"the cluster at {place.address}, which the current context names, does not run")
        return True
    except HeadError:
        pass
    return False


def _start_local(wishes: dict[str, float], storage: Any, environment: dict[str, Any], before: dict[str, Any]) -> _Connection:
    cluster = LocalCluster.start(wishes, storage)
    for name in _VARIABLES:
        os.environ.pop(name, None)
    os.environ["RTRAIN_CONFIG"] = str(cluster.config)
    _say(f"started a cluster on this machine at {cluster.address}; it ends with this process, its runs stay in {cluster.storage}")
    info = ClusterInfo(cluster.address, local=True, storage=str(cluster.storage), runtime_env=environment)
    return _Connection(info, os.getpid(), before, cluster)


def _point_to(address: str) -> None:
    """Makes `address` the current cluster, with the token and CA of a context with that address, else with those already
    set.
    """
    address_parts = split_address(address)
    for path in (user_file(), SYSTEM_FILE):
        contexts = read_yaml(type(user_file())(path)).get("contexts")
        for name, entry in contexts.items() if isinstance(contexts, dict) else ():
            if isinstance(entry, dict) and entry.get("address") and split_address(str(entry["address"])) == address_parts:
                os.environ["RTRAIN_CONTEXT"] = str(name)
                os.environ["RTRAIN_ADDRESS"] = address
                return
    os.environ["RTRAIN_ADDRESS"] = address


def _put_back(before: Mapping[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def _say(text: str) -> None:
    print(f"rtrain: {text}", file=sys.stderr, flush=True)


__all__ = ["ClusterInfo", "Place", "ensure", "init", "is_initialized", "runtime_env", "shutdown"]


public_in("rtrain", init, is_initialized, shutdown)

"""Finds environment variables that the driver's modules read and that its workers will not have."""

from __future__ import annotations

import ast
import os
import pathlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rtrain.train._archive import _package

# Variables that agents pass on to workers in any case or set anew (daemon/agent/workers/environment.cpp).
_PASSED = re.compile(
    r"(?i:(https?|no|all)_proxy)|LC_.*|PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|SSL_CERT_(FILE|DIR)|(REQUESTS_CA|CURL_CA)_BUNDLE"
    r"|RTRAIN_.*|TORCHELASTIC_.*|(LOCAL_|GROUP_|ROLE_|NODE_)?RANK|(LOCAL_|GROUP_|ROLE_)?WORLD_SIZE|ROLE_NAME|MASTER_(ADDR|PORT)"
    r"|CUDA_VISIBLE_DEVICES|TMPDIR|OMP_NUM_THREADS|PYTHONUNBUFFERED|(GLOO|NCCL)_SOCKET_IFNAME|PWD|TERM|COLUMNS|LINES"
)
_SOURCE_BYTES = 1 << 20  # larger modules are generated, and are not read

_named: set[str] = set()  # variables that this process has named already


def hint(job: Mapping[str, Any]) -> str:
    """Returns a warning about variables that the modules of this program read by a literal name and that are set here, but not
    in the job. Names each variable once in the life of this process. Returns "" if there is none, and in a process of a run,
    whose variables are those of its own job and node.
    """
    if "RTRAIN_RUN_ID" in os.environ:
        return ""
    given = {*(job.get("env") or {}), *(job.get("secrets") or [])}
    read = {name for source in _sources() for name in names_read(source)}
    missing = sorted(name for name in read - given - _named if name in os.environ and not _PASSED.fullmatch(name))
    if not missing:
        return ""
    _named.update(missing)
    them, example = ("them", missing[0]) if len(missing) > 1 else ("it", missing[0])
    return (
        f"this program reads {', '.join(missing)}, set here and not in the job: workers have {them} only if their nodes pass {them} on "
        f'(--pass-env). RunConfig(env={{"{example}": ...}}) sends a value; RunConfig(secrets=["{example}"]) sends the value of this '
        "process without showing it"
    )


def names_read(source: str) -> set[str]:
    """Returns the names X in os.environ["X"], os.environ.get("X") and os.getenv("X") of a Python source; none if it is invalid."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    return {name for node in ast.walk(tree) for name in _read_by(node)}


def _read_by(node: ast.AST) -> Iterator[str]:
    argument: ast.AST | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_environ(node.value):
        argument = node.slice
    elif isinstance(node, ast.Call) and node.args:
        called = node.func
        gets = isinstance(called, ast.Attribute) and called.attr == "get" and _is_environ(called.value)
        if gets or ast.unparse(called) in ("os.getenv", "getenv"):
            argument = node.args[0]
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        yield argument.value


def _is_environ(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in ("os.environ", "environ")


def _sources() -> Iterable[str]:
    """Yields the source of the script, and of the modules beside it that are imported."""
    folder = _package.script_directory()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not (
            isinstance(file, str)
            and file.endswith(".py")
            and (getattr(module, "__name__", "") == "__main__" or _package.is_beside(file, folder))
        ):
            continue
        try:
            if os.stat(file).st_size <= _SOURCE_BYTES:  # noqa: PTH116
                yield pathlib.Path(file).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue

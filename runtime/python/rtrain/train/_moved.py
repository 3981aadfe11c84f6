"""Makes private modules importable under their names in earlier versions, since pickles of those versions contain
the names.

An import of an old name gives the module of the new name. `python -m` and new code use the new names.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType

_NEW_NAMES = {  # names are relative to rtrain.train
    "_checkpoints": "_run_directory",
    "_checkpoints._checkpoint_names": "_values._checkpoint_names",
    "_checkpoints._elsewhere": "_run_directory._elsewhere",
    "_checkpoints._filesystems": "_run_directory._filesystems",
    "_checkpoints._left_over": "_report._left_over",
    "_checkpoints._run_directory": "_run_directory._reading",
    "_checkpoints._shared_copy": "_run_directory._shared_copy",
    "_checkpoints._uploads": "_report._bring",
    "_checkpoints._views": "_run_directory._views",
    "_driver._ignore": "_archive._ignore",
    "_driver._links": "_archive._links",
    "_driver._package": "_archive._package",
    "_driver._packed": "_archive._packed",
    "_driver._walk": "_archive._walk",
    "_elsewhere": "_run_directory._elsewhere",
    "_errors": "_values._errors",
    "_library": "_worker._library",
    "_local._directory": "_run_directory._writer",
    "_metrics": "_values._metrics",
    "_names": "_values._names",
    "_session._behind": "_worker._behind",
    "_session._checkpoint_request": "_worker._checkpoint_request",
    "_session._collective_limit": "_worker._collective_limit",
    "_session._library": "_worker._library",
    "_session._records": "_session",
    "_session._worker": "_worker",
    "_wanted": "_worker._checkpoint_request",
    "_workers._errors_text": "_worker._errors_text",
    "_workers._shares": "_values._shares",
}


class _Moved:
    """A finder and loader. It has no base class of importlib.abc, since that module imports many others."""

    def __init__(self, package: str) -> None:
        self._new_names = {f"{package}.{old}": f"{package}.{new}" for old, new in _NEW_NAMES.items()}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname in self._new_names else None  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Replaces the empty module by the module of the new name."""
        sys.modules[module.__name__] = importlib.import_module(self._new_names[module.__name__])


def find_by_old_names(package: str) -> None:
    """Lets this process import modules of `package` by their old names. The finder is the first one: for a module of a folder that was
    renamed, Python's own would find the file in the folder of the new name, and load it twice."""
    sys.meta_path.insert(0, _Moved(package))

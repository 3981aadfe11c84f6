"""`python -m rtrain ...` is the program `rtrain`: the one that was installed with this interpreter, else the one on PATH."""

from __future__ import annotations

import os
import pathlib
import sys
import sysconfig

from rtrain._local_cluster import LocalClusterError, find_program


def _program() -> pathlib.Path:
    if "RTRAIN_BINARY" not in os.environ:
        for scheme in (sysconfig.get_default_scheme(), f"{os.name}_user"):
            beside = pathlib.Path(sysconfig.get_path("scripts", scheme)) / "rtrain"
            if os.access(beside, os.X_OK):
                return beside
    return find_program()


def main() -> None:
    """Becomes the program: the same process, with the same arguments."""
    try:
        program = _program()
    except LocalClusterError as error:
        sys.exit(f"error: {error}")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()

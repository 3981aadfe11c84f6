"""Runs the program `rtrain` for `python -m rtrain ...`: the one installed with this interpreter, else the one on PATH."""

from __future__ import annotations

import os
import sys

from rtrain._local_cluster import LocalClusterError, find_program


def main() -> None:
    """Becomes the program: the same process, with the same arguments."""
    try:
        program = find_program()
    except LocalClusterError as error:
        sys.exit(f"error: {error}")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()

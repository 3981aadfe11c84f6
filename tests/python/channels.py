"""Channels of two runs, as the head makes them: tests/unit/security/certificate.cpp compares the same file."""

import pathlib

RUN, OTHER_RUN = (pathlib.Path(__file__).resolve().parents[1] / "data" / "run-channels.txt").read_text().split()

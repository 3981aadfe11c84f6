"""Small parts of `CallRuns`: why a run has ended, the messages about runs, and where workers reach this process."""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from typing import Any, Protocol

from rtrain._http import Head, HeadError, part

ASKER = "@"


class Run(Protocol):
    what: str
    run_id: str


def cause(head: Head, run: dict[str, Any]) -> str:
    """Returns why the run ended, in the words of `rtrain describe`."""
    attempts = head.items(f"/v1/runs/{part(run['run_id'])}/attempts")
    first = (attempts[-1].get("first_failure") or {}) if attempts else {}
    cause = first.get("cause") or (attempts[-1].get("cause") if attempts else "") or run.get("reason") or ""
    return f"its worker ended before it answered; run {run['name']} is {run['state']}" + (f": {cause}" if cause else "")


def address_towards(place: tuple[str, int]) -> str:
    """Returns the local address of a connection to the head. Nodes reach this process there, unless there is a NAT."""
    family = socket.AF_INET6 if ":" in place[0] else socket.AF_UNSPEC
    kind, *_, where = socket.getaddrinfo(*place, family, socket.SOCK_DGRAM)[0]
    with socket.socket(kind, socket.SOCK_DGRAM) as probe:
        probe.connect(where)
        return str(probe.getsockname()[0])


def name_of_asker(slot_name: str) -> str:
    """Returns the slot that a worker dials to ask for names of actors, beside the connection for its calls."""
    return ASKER + slot_name[1:]


def not_stopped(slots: Sequence[Run], error: HeadError) -> None:
    what = ", ".join(f"{slot.what} (run {slot.run_id})" for slot in slots)
    ends = "; ".join(f"rtrain stop {slot.run_id}" for slot in slots)
    print(f"rtrain: could not be stopped: {what}: {error.message}\nnext: {ends}", file=sys.stderr, flush=True)

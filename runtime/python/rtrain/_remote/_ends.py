"""Why a run of a remote call has ended, and where its worker reaches this process."""

from __future__ import annotations

import socket
from typing import Any

from rtrain._http import Head, part


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

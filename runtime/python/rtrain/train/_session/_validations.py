"""Validations of reported checkpoints, as the head keeps them: a rank writes the request, the driver writes the answer."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.parse
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from rtrain._http import Conflict, Head, NotFound, part
from rtrain.train._archive._package import dumps
from rtrain.train._configs import ValidationTaskConfig
from rtrain.train._values._facts import ReportedCheckpointStatus

_PREFIX = "validation-"
_KNOWN_TRIES, _KNOWN_PAUSE_S = 1200, 0.05  # a minute, not counting the time that the head is away
PENDING = ReportedCheckpointStatus.PENDING_VALIDATION.value


def ask(head: Head, run_id: str, directory: str, task: object) -> None:
    """A worker's wish that the checkpoint be validated."""
    config = task if isinstance(task, ValidationTaskConfig) else ValidationTaskConfig()
    wish = {
        "status": PENDING,
        "fn_kwargs": b64encode(dumps(config.fn_kwargs or {}, "ValidationTaskConfig.fn_kwargs")).decode(),
        "timeout_s": config.timeout_s,
    }
    for left in reversed(range(_KNOWN_TRIES)):  # the head hears of the commit from the agent, and may not have heard yet
        try:
            put(head, run_id, directory, wish)
            return
        except Conflict:
            if not left:
                raise
        time.sleep(_KNOWN_PAUSE_S)


def answers(head: Head, run_id: str) -> dict[str, dict[str, Any]]:
    """Checkpoint directory to what is known of its validation."""
    route = f"/v1/runs/{part(run_id)}/values"
    by_checkpoint = {}
    for value in head.get(route)["items"]:
        if str(value["key"]).startswith(_PREFIX):
            with contextlib.suppress(NotFound):  # removed with its checkpoint in between
                content = head.content(f"{route}/{part(value['key'])}")
                by_checkpoint[urllib.parse.unquote(value["key"][len(_PREFIX) :])] = json.loads(content)
    return by_checkpoint


def route_of(run_id: str, directory: str) -> str:
    """Where the head has what is known of the validation. The value's key is percent-encoded: a directory may lie deeper in the run's."""
    return f"/v1/runs/{part(run_id)}/values/{part(_PREFIX + part(directory))}"


def put(head: Head, run_id: str, directory: str, what: Mapping[str, Any]) -> None:
    head.put(route_of(run_id, directory), json.dumps(what).encode())

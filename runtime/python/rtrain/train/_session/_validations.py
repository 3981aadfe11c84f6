"""Validations of reported checkpoints, as values of the run at the head. A rank writes the request, and the driver
writes the answer.
"""

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
# tries for a minute in all, without the time in which the head does not answer
_KNOWN_TRIES, _KNOWN_PAUSE_S = 1200, 0.05
PENDING = ReportedCheckpointStatus.PENDING_VALIDATION.value


def request(head: Head, run_id: str, directory: str, task: object) -> None:
    """Requests the validation of a checkpoint."""
    config = task if isinstance(task, ValidationTaskConfig) else ValidationTaskConfig()
    wish = {
        "status": PENDING,
        "fn_kwargs": b64encode(dumps(config.fn_kwargs or {}, "ValidationTaskConfig.fn_kwargs")).decode(),
        "timeout_s": config.timeout_s,
    }
    # The agent reports the commit to the head. The head may not have received it yet, so the request is repeated.
    for left in reversed(range(_KNOWN_TRIES)):
        try:
            put(head, run_id, directory, wish)
            return
        except Conflict:
            if not left:
                raise
        time.sleep(_KNOWN_PAUSE_S)


def answers(head: Head, run_id: str) -> dict[str, dict[str, Any]]:
    """Returns the record of each validation, by checkpoint directory."""
    route = f"/v1/runs/{part(run_id)}/values"
    by_checkpoint = {}
    for value in head.get(route)["items"]:
        if str(value["key"]).startswith(_PREFIX):
            with contextlib.suppress(NotFound):  # a value may have been removed with its checkpoint meanwhile
                content = head.content(f"{route}/{part(value['key'])}")
                by_checkpoint[urllib.parse.unquote(value["key"][len(_PREFIX) :])] = json.loads(content)
    return by_checkpoint


def route_of(run_id: str, directory: str) -> str:
    """Returns the API route of a validation's record. The key is percent-encoded, since the directory may contain
    slashes.
    """
    return f"/v1/runs/{part(run_id)}/values/{part(_PREFIX + part(directory))}"


def put(head: Head, run_id: str, directory: str, what: Mapping[str, Any]) -> None:
    head.put(route_of(run_id, directory), json.dumps(what).encode())

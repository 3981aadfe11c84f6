"""Describes why a run waits, for the terminal of its driver."""

from __future__ import annotations

import re
from typing import Any

_TIME = re.compile(r"\b(?:\d+(?:ms|[smhd]))+\d*\b|\b\d+ ms\b")  # such as 12m, 2h11, 350 ms
_REASONS = 3


def why_waits(explanation: dict[str, Any]) -> str:
    """Returns one line from an answer of GET /v1/runs/{run}/explain: the place in the queue, and the reasons if no present node
    could ever hold the run. Reasons that change quickly are left to `rtrain explain`."""
    headline = str(explanation.get("headline") or "").partition("\n")[0]
    if explanation.get("verdict") != "infeasible":
        return headline
    groups = [str(group.get("text") or "") for group in explanation.get("groups") or []]
    reasons = "; ".join(groups[:_REASONS]) + (f"; and {len(groups) - _REASONS} more" if len(groups) > _REASONS else "")
    return f"NO PRESENT NODES COULD EVER HOLD IT, it waits for nodes to join{': ' if reasons else ''}{reasons}. {headline}"


def without_times(line: str) -> str:
    """Removes times from the line, so that it stays equal while only a time changes."""
    return _TIME.sub("", line)

"""Why a run waits, as the head explains it, for the terminal of who waits for it."""

from __future__ import annotations

import re
from typing import Any

_TIME = re.compile(r"\b(?:\d+(?:ms|[smhd]))+\d*\b|\b\d+ ms\b")  # 12m, 2h11, 350 ms
_REASONS = 3


def why_waits(explanation: dict[str, Any]) -> str:
    """One line of what GET /v1/runs/{run}/explain gave: its place in the queue, and where no present node could ever hold it that,
    with the reasons. What would start now changes too often for a terminal: `rtrain explain` has it."""
    headline = str(explanation.get("headline") or "").partition("\n")[0]
    if explanation.get("verdict") != "infeasible":
        return headline
    groups = [str(group.get("text") or "") for group in explanation.get("groups") or []]
    reasons = "; ".join(groups[:_REASONS]) + (f"; and {len(groups) - _REASONS} more" if len(groups) > _REASONS else "")
    return f"NO PRESENT NODES COULD EVER HOLD IT, it waits for nodes to join{': ' if reasons else ''}{reasons}. {headline}"


def without_times(line: str) -> str:
    """What passes by itself does not make a line another one; a place in the queue, or an amount, does."""
    return _TIME.sub("", line)

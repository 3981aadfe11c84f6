"""The exceptions of a sweep itself. A trial's own error stays in its Result."""

from __future__ import annotations

from rtrain._lazy import public_in


class TuneError(RuntimeError):
    """The sweep cannot go on, or could not begin. The text says why and what to do."""


public_in("rtrain.tune", TuneError)

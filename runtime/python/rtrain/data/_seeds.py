"""Seeds that nobody gave. In a run the ranks build datasets each by itself (a function in `datasets=`, a `DataConfig.configure`),
and must come to the same rows: there a seed is made of the run and of the plan that it is for."""

from __future__ import annotations

import secrets
import sys
import zlib


def seed_for(plan: str) -> int:
    """A seed for the plan, which is given in words. Every rank of a run has the same one; elsewhere it is random."""
    module = sys.modules.get("rtrain.train._session")
    session = module.active() if module is not None else None
    if session is None:
        return secrets.randbits(32)
    return zlib.crc32(f"{session.facts.run_id} {plan}".encode())

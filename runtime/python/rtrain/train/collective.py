"""Collectives over the ranks of a run that need no process group: they travel with the agents' report group."""

from __future__ import annotations

from typing import TypeVar

from rtrain.train import _session

T = TypeVar("T")

__all__ = ["barrier", "broadcast_from_rank_zero"]


def barrier() -> None:
    """Waits until every rank has called it. RuntimeError outside of a training function."""
    _session.current("collective.barrier").barrier()


def broadcast_from_rank_zero(data: T) -> T:
    """Rank 0's object (anything that pickles, of any size) on every rank; what the others give is ignored."""
    answer: T = _session.current("collective.broadcast_from_rank_zero").broadcast_from_rank_zero(data)
    return answer

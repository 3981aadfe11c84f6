"""Collectives over the ranks of a run. They need no process group, since the agents of the run's nodes carry them."""

from __future__ import annotations

from typing import TypeVar

from rtrain.train import _session

T = TypeVar("T")

__all__ = ["barrier", "broadcast_from_rank_zero"]


def barrier() -> None:
    """Waits until every rank has called it. Raises RuntimeError outside of a training function."""
    _session.current("collective.barrier").barrier()


def broadcast_from_rank_zero(data: T) -> T:
    """Returns rank 0's `data` on every rank. All ranks must call it. The `data` of other ranks is ignored.

    data: anything that can be pickled, of any size. Raises RuntimeError outside of a training function.
    """
    answer: T = _session.current("collective.broadcast_from_rank_zero").broadcast_from_rank_zero(data)
    return answer

"""Computes the rows of an epoch's order that each rank gets for its batches.

Position p of the order is row p of all rows that the ranks deliver together. Global batch k holds the positions
[delivered + k * together, delivered + (k + 1) * together), and rank r takes every ranks-th of them, from the r-th
on. So a global batch does not depend on the number of ranks as long as `each * ranks` stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass


def padded(rows: int, multiple: int, *, drop: bool) -> int:
    """Returns the number of rows that all ranks take in an epoch: `rows`, rounded up to a multiple of `multiple`, as a
    DistributedSampler pads. With `drop` it is rounded down. A multiple stays the same.
    """
    return rows // multiple * multiple if drop else -(-rows // multiple) * multiple


@dataclass(frozen=True)
class Deal:
    """The rest of an epoch, split among ranks.

    Invariant: 0 <= delivered <= total. Every rank has len(self) batches, each with one row at least.
    """

    total: int  # rows of the epoch, including padding
    each: int  # rows of one rank in a batch
    ranks: int
    rank: int
    delivered: int = 0  # rows that all ranks together have delivered earlier in this epoch
    drop_last: bool = False  # True: the last global batch is left out if it is smaller

    @property
    def together(self) -> int:
        """The number of rows in a global batch."""
        return self.each * self.ranks

    def __len__(self) -> int:
        left = self.total - self.delivered
        return left // self.together if self.drop_last else -(-left // self.together)

    def positions(self, batch: int) -> range:
        """Returns this rank's positions in a global batch. If the last batch has fewer rows than ranks, it is padded to
        one row for each rank.
        """
        start = self.delivered + batch * self.together
        stop = min(start + self.together, self.total)
        return range(start + self.rank, max(stop, start + self.ranks), self.ranks)

    def after(self, batches: int) -> int:
        """Returns the number of rows of the epoch that are delivered after this number of batches."""
        return min(self.delivered + batches * self.together, self.total)

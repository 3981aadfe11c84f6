"""One reader's share of a dataset, epoch after epoch, and how far it is: what `state_dict` says and `load_state_dict` takes.

Every iteration begins an epoch; the first one after `load_state_dict` goes on in the epoch of the state. Rows count as given out
with the batch that they are in, when the loop gets it.
"""

from __future__ import annotations

import secrets
import sys
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rtrain.data import _position
from rtrain.data._block import Block
from rtrain.data._ops import Sample
from rtrain.data._orders import Shuffled
from rtrain.data._plan import Exchange, Mapped, Node, Order, Read, Run, count_all, shared_rows, undeclared
from rtrain.data._position import Ranges, Stage

VERSION = 1
PIECES = 2  # how files are cut into pieces; a state without this number is from before they were cut by decoded bytes


def seed_for(plan: str) -> int:
    """Returns a seed for what is random in the plan, which is given in words. Every rank of a run has the same one; elsewhere it is random.

    In a run each rank builds its datasets by itself (a function in `datasets=`, a `DataConfig.configure`), and all must have the same rows.
    """
    module = sys.modules.get("rtrain.train._session")
    session = module.active() if module is not None else None
    if session is None:
        return secrets.randbits(32)
    return zlib.crc32(f"{session.facts.run_id} {plan}".encode())


@dataclass
class Progress:
    """How far one iteration has come."""

    epoch: int
    rows: int | None  # of the whole epoch
    before: list[Stage]
    stage: Stage
    windows: list[int] = field(default_factory=list)  # rows of each shuffled buffer that was filled
    consumed: int = 0
    ended: bool = False

    def stages(self) -> list[Stage]:
        if self.consumed == 0:
            return self.before
        stage = self.stage
        window = 0
        if stage.buffer:
            number = self.consumed // stage.buffer
            window = self.windows[number] if number < len(self.windows) else 0
        now = Stage(stage.world, self.consumed, stage.equal, stage.buffer, stage.seed, window)
        return [*self.before, now]


class Share:
    """Rank `rank`'s of `world`. seed: of what is random without a seed of its own; all ranks must have the same."""

    def __init__(self, node: Node, rank: int = 0, world: int = 1, *, equal: bool = True, seed: int | None = None) -> None:
        self.node = node
        self.rank, self.world, self.equal = rank, world, equal
        self.seed = secrets.randbits(63) if seed is None else seed
        self.epoch = 0  # the next iteration's
        self.stages: list[Stage] = []  # of that epoch, from a state
        self.state_rows: int | None = None  # what the state says the epoch has
        self.progress: Progress | None = None
        self.among = (0, 1)  # which of several loader processes this is

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "progress": None}

    # -- an epoch ---------------------------------------------------------------------------------------------------
    def begin(self, buffer: int = 0, seed: int | None = None) -> tuple[Progress, Iterator[Block]]:
        """The next epoch, or what a state left of one: how far it is, and its blocks."""
        strict = self.world > 1 or bool(self.stages)
        order = Order(self.seed, self.epoch, strict)
        rows = self._rows(order)
        if self.state_rows is not None and rows is not None and rows != self.state_rows:
            raise ValueError(
                f"the state that was loaded is of a dataset with {self.state_rows} rows, and {self.node.says()} has {rows} now: "
                "a half-read epoch cannot go on. Load no state, and the epoch starts from its beginning"
            )
        rest = _position.rest_after(rows, self.stages, self.epoch)
        own_ranges = _position.share(rest, self.world, self.rank, equal=self.equal)
        stage = Stage(self.world, 0, self.equal, buffer, self.seed % 2**32 if seed is None else seed)
        self.progress = Progress(self.epoch, rows, self.stages, stage)
        self.epoch, self.stages, self.state_rows = self.epoch + 1, [], None
        return self.progress, read_ranges(self.node.start(order), self._of_this_process(own_ranges))

    def _rows(self, order: Order) -> int | None:
        """Counted where ranks share them, or shared them before a resume; one reader alone reads on to the end."""
        if self.world == 1 and self.among[1] == 1 and all(stage.world == 1 for stage in self.stages):
            return None if self.node.assumes else self.node.rows()
        if self.node.steady or self.node.rows() is not None:
            return shared_rows(self.node)
        count_all(self.node)
        known = self.node.rows()
        return known if known is not None else sum(piece.rows for piece in self.node.start(order).pieces())

    def _of_this_process(self, ranges: Ranges) -> Ranges:
        number, count = self.among
        return ranges if count == 1 else _position.share(ranges, count, number, equal=False)

    def rows(self) -> int:
        """Returns the rows of a whole epoch, for this rank."""
        start, stop = _position.bounds(shared_rows(self.node), self.world, self.rank, equal=self.equal)
        return (stop or 0) - start

    # -- state ------------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        now = self.progress
        if now is None:
            epoch, stages, rows = self.epoch, self.stages, self.state_rows
        elif now.ended:
            epoch, stages, rows = now.epoch + 1, [], now.rows
        else:
            epoch, stages, rows = now.epoch, now.stages(), now.rows
        return {
            "version": VERSION,
            "pieces": PIECES,
            "epoch": epoch,
            "seed": self.seed,
            "rows": rows,
            "stages": [stage.as_dict() for stage in stages],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state, Mapping) or not {"version", "epoch", "seed", "stages"} <= state.keys():
            raise ValueError("this is no state of a dataset's share: it is what shard.state_dict() gave")
        if state["version"] != VERSION:
            raise ValueError(f"the state is of version {state['version']}, this rtrain reads version {VERSION}")
        self.epoch, self.seed = int(state["epoch"]), int(state["seed"])
        self.stages = [Stage(**stage) for stage in state["stages"]]
        self.state_rows = state.get("rows") if self.stages else None
        if self.stages and state.get("pieces", 1) != PIECES and _order_follows_pieces(self.node):
            warnings.warn(
                f"the state of {self.node.says()} was saved in the middle of an epoch by an rtrain that cut files into other pieces: rows of "
                "this epoch may come twice or be left out; later epochs are whole",
                UserWarning,
                stacklevel=2,
            )
        self.progress = None


def _order_follows_pieces(node: Node) -> bool:
    """Returns True if the rows of an epoch, or their order, depend on how files are cut into pieces."""
    draws = isinstance(node, Shuffled) or (isinstance(node, Mapped) and any(isinstance(op, Sample) for op in node.ops))
    return (draws and _reads_files(node)) or any(_order_follows_pieces(child) for child in node.children)


def _reads_files(node: Node) -> bool:
    return (isinstance(node, Read) and not node.in_memory) or any(_reads_files(child) for child in node.children)


def read_ranges(run: Run, ranges: Ranges) -> Iterator[Block]:
    """The rows at these positions of the run's pieces."""
    coming = iter(ranges)
    current = next(coming, None)
    passed = 0
    if current is None:
        return
    for piece in run.pieces():
        block: Block | None = None
        end = passed + piece.rows
        while current is not None and current[0] < end:
            start, stop = current
            block = block if block is not None else run.read(piece)
            yield block.slice(max(start - passed, 0), (end if stop is None else min(stop, end)) - passed)
            if stop is None or stop > end:
                break
            current = next(coming, None)
        if current is None:
            return
        passed = end


def _tell(text: str) -> None:
    print(f"rtrain: {text}", file=sys.stderr, flush=True)


def agreed(share: Share, exchange: Exchange) -> None:
    """Counts what is to be counted, every rank its part, and sees that all ranks have the same rows. Every rank calls it."""
    tells = share.rank == 0 and share.node.rows() is None
    begun = time.monotonic()
    if tells:
        _tell(f"counts the rows of {share.node.says()} before {share.world} ranks share them")
    count_all(share.node, share.rank, share.world, exchange)
    rows = share.node.rows()
    if tells:
        again = ", ".join(undeclared(share.node))
        hint = f"; {again} ran once for that, which udf_modifying_row_count=False spares where the number of rows is kept"
        _tell(f"counting took {time.monotonic() - begun:.1f} s{hint if again else ''}")
    plan_text = share.node.says()
    layout = zlib.crc32(
        repr([piece.rows for piece in share.node.start(Order(strict=True)).pieces()] if share.node.steady else []).encode()
    )
    for rank, (others, their_layout) in enumerate(exchange((rows, layout))):
        if (others, their_layout) != (rows, layout):
            raise ValueError(
                f"rank {rank} sees {others} rows of {plan_text} and rank {share.rank} sees {rows}: the ranks must read the same files"
                + ("" if others != rows else " (the rows are as many, and lie otherwise)")
            )

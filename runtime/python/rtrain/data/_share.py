"""One reader's share of a dataset over all epochs, and its progress, which `state_dict` returns and `load_state_dict` restores.

Every iteration begins an epoch. The first one after `load_state_dict` continues the epoch of the state. A row counts as given
out when the loop receives its batch.
"""

from __future__ import annotations

import secrets
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rtrain.data import _position
from rtrain.data._dealing import _board, _progress
from rtrain.data._dealing._board import Alone, Board, Together
from rtrain.data._dealing._dealt import Dealt, Parts, Rows
from rtrain.data._dealing._from_lanes import FromLanes
from rtrain.data._dealing._lanes import Dealing
from rtrain.data._dealing._progress import Given, Local, OfLanes, Progress, Resumed, Staged
from rtrain.data._dealing._streams import Streams
from rtrain.data._in_streams import _places
from rtrain.data._ops import Sample
from rtrain.data._orders import Shuffled
from rtrain.data._plan import Exchange, Mapped, Node, Order, Read, count_all, rows_of, shared_rows, undeclared
from rtrain.data._position import Ranges, Stage

PIECES = 3  # the version of how pieces and windows are cut; a state without it is older than cuts by decoded bytes
_WHOLE_WINDOWS = 2  # up to this version, a shuffle's windows were not cut by the bytes that functions made


def seed_for(plan: str) -> int:
    """Returns a seed for the random choices of a plan, which `plan` describes. In a run it is the same on every rank; elsewhere
    it is random.

    In a run each rank builds its datasets by itself (a function in `datasets=`, a `DataConfig.configure`), and all ranks need
    the same rows.
    """
    module = sys.modules.get("rtrain.train._session")
    session = module.active() if module is not None else None
    if session is None:
        return secrets.randbits(32)
    return zlib.crc32(f"{session.facts.run_id} {plan}".encode())


class Share:
    """The share of rank `rank` of `world`. seed: for random choices without their own seed; the same on all ranks.

    streams: the number of streams of an epoch. A loaded state keeps its own number until its epoch ends. usual_streams: the
    number if neither `streams` nor a state sets it; None: one for each rank.
    """

    streams_wanted: int | None = None
    streams: int | None = None  # the number in later epochs
    pieces = PIECES  # the version by which the next epoch is cut
    pieces_of_progress = PIECES
    board: Board | None = None  # publishes row counts among ranks; None: this rank reads all streams
    resumed: Resumed | None = None  # the rest of an epoch that a loaded state describes, which the next iteration reads

    def __init__(
        self,
        node: Node,
        rank: int = 0,
        world: int = 1,
        *,
        equal: bool = True,
        seed: int | None = None,
        streams: int | None = None,
        usual_streams: int | None = None,
        board: Board | None = None,
    ) -> None:
        self.node, self.board = node, board
        self.rank, self.world, self.equal = rank, world, equal
        self.seed = secrets.randbits(63) if seed is None else seed
        self.streams_wanted, self.streams = streams, streams or usual_streams
        self.epoch = 0  # the number of the next iteration's epoch
        self.progress: Progress | None = None
        self.among = (0, 1)  # (number of this loader process, number of loader processes)
        self._told: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "progress": None, "board": self.board if isinstance(self.board, Together) else None}

    # -- an epoch ---------------------------------------------------------------------------------------------------
    def begin(self, size: int | None = None, buffer: int = 0, seed: int | None = None) -> tuple[Progress, Rows]:
        """Begins the next epoch, or the rest of a state's epoch. Returns its progress and its rows.

        size: rows of this rank's batches; None: rows are given out one by one, or in blocks as they are read. buffer, seed: of
        a local shuffle.
        """
        shuffle_seed = self.seed % 2**32 if seed is None else seed
        local = Local(buffer, shuffle_seed) if buffer else None
        resumed = self.resumed or Resumed(None, Streams(self.streams or self.world, None, self.equal))
        progress, rows = self._way_of(resumed)(resumed, local, size)
        self.progress = progress
        self.epoch, self.resumed = self.epoch + 1, None
        self.pieces_of_progress, self.pieces = self.pieces, PIECES
        return progress, rows

    def _way_of(self, resumed: Resumed) -> Callable[[Resumed, Local | None, int | None], tuple[Progress, Rows]]:
        from_lanes = _places.is_dealt_from_lanes(self.node)
        if resumed.lanes and not from_lanes:
            raise ValueError(
                f"the state that was loaded is of a dataset whose rows nobody counted, and {self.node.says()} has rows that are known: a "
                "half-read epoch cannot go on. Load no state, and the epoch starts from its beginning"
            )
        if from_lanes and (resumed.lanes or resumed.begins):
            return self._begin_from_lanes
        return self._begin_staged if self.among[1] > 1 or resumed.streams is None else self._begin_dealt

    def _begin_from_lanes(self, resumed: Resumed, local: Local | None, size: int | None) -> tuple[Progress, Rows]:
        assert resumed.streams is not None
        number, processes = self.among
        world, rank = self.world * processes, self.rank * processes + number  # Each process of a loader counts as a rank.
        count, equal = resumed.streams.count, resumed.streams.equal
        if processes > 1 and resumed.begins:
            count = world
        order = Order(self.seed, self.epoch, True, count, equal=False, lanes=True)
        chunks = _places.chunks_of(self.node, order)
        batch = None if size is None else size * world
        if not resumed.begins:
            local = self._kept(resumed.local, local)
            self._say_batch(resumed.batch, batch)
        self._say_readers(count)
        lanes = chunks.lanes()
        if resumed.lanes:
            lanes = [replace(lane) for lane in resumed.lanes]
        dealing = Dealing(lanes, resumed.turn, chunks.step, local.rows if local else 1)
        progress = OfLanes(
            epoch=self.epoch,
            rows=None,
            dealing=dealing,
            world=world,
            equal=equal,
            given=resumed.given,
            local=local,
            batch=batch,
        )
        published = (self.board or Alone()).epoch(zlib.crc32(repr(order).encode()))
        return progress, FromLanes(self.node, order, rank, progress, chunks, published)

    def _begin_dealt(self, resumed: Resumed, local: Local | None, size: int | None) -> tuple[Progress, Rows]:
        assert resumed.streams is not None
        count, equal = resumed.streams.count, resumed.streams.equal
        order = self._order(resumed)
        streams = Streams(count, self._rows(order, resumed, several=count > 1 or self.world > 1), equal)
        batch = None if size is None else size * self.world
        if not resumed.begins:
            local = self._kept(resumed.local, local)
            self._say_batch(resumed.batch, batch)
        self._say_readers(count)
        progress = Given(
            epoch=self.epoch,
            rows=streams.rows,
            streams=streams,
            world=self.world,
            begun=resumed.given,
            local=local,
            batch=batch,
        )
        return progress, Dealt(self.node, order, self.rank, progress)

    def _begin_staged(self, resumed: Resumed, local: Local | None, _size: int | None) -> tuple[Progress, Rows]:
        order = self._order(resumed)
        several = self.world > 1 or self.among[1] > 1 or any(stage.world > 1 for stage in resumed.stages)
        rows = self._rows(order, resumed, several=several)
        if resumed.streams is None:
            rest = _position.rest_after(rows, list(resumed.stages), self.epoch)
        else:
            rest = Streams(resumed.streams.count, rows, resumed.streams.equal).left(resumed.given)
        own_ranges = _position.share(rest, self.world, self.rank, equal=self.equal)
        stage = Stage(self.world, 0, self.equal, local.rows if local else 0, local.seed if local else 0)
        progress = Staged(epoch=self.epoch, rows=rows, before=resumed.stages, stage=stage)
        return progress, Parts(self.node, order, self.rank, progress, self._of_this_process(own_ranges))

    def _order(self, resumed: Resumed) -> Order:
        streams = resumed.streams or Streams(1, None, self.equal)
        strict = self.world > 1 or streams.count > 1 or not resumed.begins
        return Order(self.seed, self.epoch, strict, streams.count, streams.equal, self.pieces <= _WHOLE_WINDOWS)

    def _kept(self, begun: Local | None, asked: Local | None) -> Local | None:
        """Returns the local shuffle of the state. It cannot be changed within an epoch, because the state's rows depend on it."""
        if begun != asked:
            warnings.warn(
                f"the state of {self.node.says()} was taken in an epoch {_in_words(begun)}: that epoch ends so, and the next ones are "
                f"{_in_words(asked)}",
                UserWarning,
                stacklevel=2,
            )
        return begun

    def _say_batch(self, before: int | None, now: int | None) -> None:
        if before is not None and now is not None and before != now and self._is_new("batch", now):
            _tell(
                f"a global batch of {self.node.says()} has {now} rows, and had {before} before the number of ranks or batch_size changed; "
                f"iter_torch_batches(global_batch_size={before}) keeps it"
            )

    def _say_readers(self, streams: int) -> None:
        readers = Streams(streams, None).readers(self.world)
        if readers > 1 and self._is_new("readers", streams):
            _tell(
                f"{self.world} ranks share {self.node.says()}, which is cut into {streams} stream{'s' if streams > 1 else ''}: up to {readers} "
                "ranks read the same stream. Each row is read by one rank where the number of ranks divides DataConfig(streams=)"
            )

    def _is_new(self, what: str, value: Any) -> bool:
        """Returns True on rank 0 for a text that was not printed before."""
        is_new = self.rank == 0 and self._told.get(what) != value
        self._told[what] = value
        return is_new

    def _rows(self, order: Order, resumed: Resumed, *, several: bool) -> int | None:
        """Returns the rows of the epoch. They are counted if ranks or streams share them. A single reader reads to the end
        without a count."""
        if not several and self.among[1] == 1:
            rows = None if self.node.assumes else self.node.rows()
        elif self.node.steady or self.node.rows() is not None:
            rows = shared_rows(self.node)
        else:
            count_all(self.node)
            known = self.node.rows()
            rows = known if known is not None else sum(piece.rows for piece in self.node.start(order).pieces())
        if not resumed.begins and resumed.rows is not None and rows is not None and rows != resumed.rows:
            raise ValueError(
                f"the state that was loaded is of a dataset with {resumed.rows} rows, and {self.node.says()} has {rows} now: "
                "a half-read epoch cannot go on. Load no state, and the epoch starts from its beginning"
            )
        return rows

    def _of_this_process(self, ranges: Ranges) -> Ranges:
        number, count = self.among
        return ranges if count == 1 else _position.share(ranges, count, number, equal=False)

    def rows(self) -> int:
        """Returns this rank's rows in a whole epoch. Reads all of them if only reading finds their number."""
        if _places.is_dealt_from_lanes(self.node):
            start, stop = _position.bounds(rows_of(self.node), self.world, self.rank, equal=self.equal)
            return (stop or 0) - start
        return Streams(self.streams or self.world, shared_rows(self.node), self.equal).rows_of(self.world, self.rank)

    def publish_to_loader_processes(self) -> None:
        """Lets the processes of a loader publish row counts to each other. The processes of several ranks use the ranks'
        connection."""
        if self.board is None and self.world == 1 and _places.is_dealt_from_lanes(self.node):
            self.board = _board.connected(_board.offered(), 0, self.node.says())

    # -- state ------------------------------------------------------------------------------------------------------
    def state_dict(self) -> dict[str, Any]:
        now = self.progress
        epoch, resumed, pieces = self.epoch, self.resumed, self.pieces
        if now is not None and not now.ended:
            pieces = self.pieces_of_progress
            assert isinstance(now, Given | OfLanes | Staged)
            epoch, resumed = now.epoch, now.resumed()
        if resumed is None or (resumed.begins and resumed.streams is None):
            rows = None if now is None else now.rows
            resumed = Resumed(rows, Streams(self.streams or self.world, rows, self.equal))
        return {"pieces": pieces, "epoch": epoch, "seed": self.seed, **resumed.written()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        resumed = _progress.read(state)
        self.epoch, self.seed = int(state["epoch"]), int(state["seed"])
        self.resumed = None if resumed.begins else resumed
        self.pieces = PIECES if resumed.begins else int(state.get("pieces", 1))
        if resumed.streams is not None:
            self.streams = self.streams_wanted or resumed.streams.count
        if self.resumed is not None and self.pieces < _WHOLE_WINDOWS and _order_follows_pieces(self.node):
            warnings.warn(
                f"the state of {self.node.says()} was saved in the middle of an epoch by an rtrain that cut files into other pieces: rows of "
                "this epoch may come twice or be left out; later epochs are whole",
                UserWarning,
                stacklevel=2,
            )
        self.progress = None

    def set_epoch(self, epoch: int) -> None:
        """Sets the next iteration to the whole epoch of this number."""
        if epoch != self.epoch or self.progress is not None:
            self.epoch, self.resumed, self.progress = epoch, None, None
            self.pieces = PIECES


def _in_words(local: Local | None) -> str:
    return "without a local shuffle" if local is None else f"with local_shuffle_buffer_size={local.rows}, seed {local.seed}"


def _order_follows_pieces(node: Node) -> bool:
    """Returns True if the rows of an epoch, or their order, depend on how files are cut into pieces."""
    draws = isinstance(node, Shuffled) or (isinstance(node, Mapped) and any(isinstance(op, Sample) for op in node.ops))
    return (draws and _reads_files(node)) or any(_order_follows_pieces(child) for child in node.children)


def _reads_files(node: Node) -> bool:
    return (isinstance(node, Read) and not node.in_memory) or any(_reads_files(child) for child in node.children)


def _tell(text: str) -> None:
    print(f"rtrain: {text}", file=sys.stderr, flush=True)


def agreed(share: Share, exchange: Exchange) -> None:
    """Checks that all ranks have the same input, sets the number of streams, and counts the rows, each rank its part. Every
    rank must call it. ValueError if the inputs differ."""
    if _places.is_dealt_from_lanes(share.node):
        rows, layout = None, _places.layout(share.node)
        offer = _board.offered() if share.rank == 0 else None
    else:
        rows, layout, offer = *_counted(share, exchange), None
    plan_text = share.node.says()
    gathered = exchange((rows, layout, share.streams, offer))
    for rank, (others, their_layout, _, _) in enumerate(gathered):
        if (others, their_layout) != (rows, layout):
            counts = "other files" if rows is None else f"{others} rows"
            raise ValueError(
                f"rank {rank} sees {counts} of {plan_text}{'' if rows is None else f' and rank {share.rank} sees {rows}'}: the ranks must "
                + "read the same files"
                + ("" if others != rows or rows is None else " (the rows are as many, and lie otherwise)")
            )
    share.streams = gathered[0][2]  # Only rank 0 has read how many ranks the run may have.
    if rows is None:
        share.board = _board.connected(gathered[0][3], share.rank, plan_text)


def _counted(share: Share, exchange: Exchange) -> tuple[int | None, int]:
    """Returns the rows, and a number that depends on their pieces. The ranks count together if the plan does not give the rows."""
    announces = share.rank == 0 and share.node.rows() is None
    begun = time.monotonic()
    if announces:
        _tell(f"counts the rows of {share.node.says()} before {share.world} ranks share them")
    count_all(share.node, share.rank, share.world, exchange)
    if announces:
        again = ", ".join(undeclared(share.node))
        hint = f"; {again} ran once for that, which udf_modifying_row_count=False spares where the number of rows is kept"
        _tell(f"counting took {time.monotonic() - begun:.1f} s{hint if again else ''}")
    pieces = [piece.rows for piece in share.node.start(Order(strict=True)).pieces()] if share.node.steady else []
    return share.node.rows(), zlib.crc32(repr(pieces).encode())

"""The states of an IterableDataset, in the rank or in each process of a loader, with the batches that they belong
to.

A process sends the dataset's state with each batch. The state of the newest batch that the loop got counts. The
processes of a resumed iteration deliver in the order of the original one: processes before the next one first send
an empty batch, which is dropped.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from rtrain.train.torch._placed import ShowsDataset

_NOTHING = "rtrain: an empty turn"
# marks a state that need not be copied: the dataset was not advanced further, so its present state counts
_PRESENT: Any = object()


class Streams:
    """Records the states in one iteration of a loader over an IterableDataset with a state."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.dataset: Any = loader.dataset
        self.workers = loader.num_workers
        # key: a process of the loader; value: the dataset's state after the newest batch that the loop has received
        # from it
        self.states: dict[int, Any] = {}
        self.next = 0  # number of the process that delivers the next batch
        self._fetched: deque[tuple[int, Any]] = deque()

    def load(self, state: Mapping[str, Any]) -> None:
        self.states, self.next = {int(worker): own for worker, own in state["states"].items()}, int(state["next"])
        if not self.workers and self.states:
            self.dataset.load_state_dict(self.states[0])

    def that_fetches(self, loader: DataLoader[Any]) -> DataLoader[Any]:
        if not self.workers:
            return loader
        fetching = copy.copy(loader)
        stream = _Stream(self.dataset, dict(self.states), self.next, loader.batch_size or 1)
        fetching.__dict__.update(
            _iterator=None, dataset=stream, collate_fn=_WithState(stream, loader.collate_fn),
            worker_init_fn=ShowsDataset(loader.worker_init_fn),
        )  # fmt: skip
        return fetching

    def fetched(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yields the batches. The state of each is recorded when the loop gets it."""
        if not self.workers:
            for batch in batches:
                self._fetched.append((0, _PRESENT))
                yield batch
                # with prefetching, the next batch is copied to the GPU before the loop receives this one
                if self._fetched:
                    self._fetched[-1] = 0, self.dataset.state_dict()
            return
        for batch, worker, state in batches:
            if isinstance(state, str) and state == _NOTHING:
                continue
            self._fetched.append((worker, state))
            yield batch

    def give(self) -> None:
        worker, state = self._fetched.popleft()
        self.states[worker] = state
        self.next = (worker + 1) % max(1, self.workers)

    def state(self) -> dict[str, Any]:
        present = {worker: self.dataset.state_dict() if own is _PRESENT else own for worker, own in self.states.items()}
        return {"states": present, "next": self.next}


class _Stream(IterableDataset[Any]):
    """The dataset as a process of the loader sees it."""

    def __init__(self, dataset: Any, states: dict[int, Any], first: int, batch: int) -> None:
        self.dataset, self.states, self.first, self.batch = dataset, states, first, batch

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        worker = 0 if info is None else info.id
        states, self.states = self.states, {}
        first, self.first = self.first, 0
        if worker in states:
            self.dataset.load_state_dict(states[worker])
        empty = itertools.repeat(_NOTHING, self.batch if worker < first else 0)
        return itertools.chain(empty, self.dataset)


class _WithState:
    """A `collate_fn` that returns three values: the batch, the number of the loader's process, and the dataset's state
    after the batch.
    """

    def __init__(self, stream: _Stream, onward: Callable[[Any], Any]) -> None:
        self.stream, self.onward = stream, onward

    def __call__(self, items: Any) -> tuple[Any, int, Any]:
        info = get_worker_info()
        worker = 0 if info is None else info.id
        if items is _NOTHING or (isinstance(items, list) and items and items[0] is _NOTHING):
            return None, worker, _NOTHING
        return self.onward(items), worker, self.stream.dataset.state_dict()

"""The position of a prepared loader: the epoch, and the part of it that the loop has received. Items that were only
prefetched do not count.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch

from rtrain.train.torch import _reproducible
from rtrain.train.torch._place import place
from rtrain.train.torch._units import Begin, Kind, Units

VERSION = 1
_KEYS = {"version", "kind", "epoch", "seed", "delivered"}


class Position:
    """The epochs of a prepared loader. Every iteration is another epoch: that of `set_epoch`, otherwise the next
    one.

    seed: the seed of the sampler's own generator; None: it has none. world: the number of ranks of a state; None: a
    state fits any number.
    """

    def __init__(self, kind: Kind, seed: int | None, world: int | None) -> None:
        self.kind, self.world = kind, world
        self.multiple = kind.multiple
        self.epoch = 0  # the epoch of the next iteration
        self.seed = seed
        # the epoch that `set_epoch` has set for the next iteration; None: the one after the last
        self._named: int | None = None
        self._first_step = 0  # the first step that `set_epoch` of a GlobalBatches has set
        self._loaded: Mapping[str, Any] | None = None
        self._now: Units | None = None
        self._ended = False

    def set_epoch(self, epoch: int, first_step: int = 0) -> None:
        self._named, self._first_step = epoch, first_step

    def begin(self) -> tuple[Units, bool]:
        """Returns the units of the next iteration, and whether they continue a loaded state."""
        loaded, epoch = self._left_of(self._loaded), self.epoch if self._named is None else self._named
        if self.seed is None:
            self.seed = self._first_seed()
        delivered = int(loaded["delivered"]) if loaded else self._first_step
        check = loaded.get("check") if loaded else None
        self._now = self.kind.begin(Begin(self.seed, epoch, delivered, self.multiple, check))
        self._ended = False
        self.epoch, self._named, self._first_step, self._loaded = epoch + 1, None, 0, None
        return self._now, loaded is not None

    def _left_of(self, state: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Returns the loaded state; None if `set_epoch` has set another epoch than the state's."""
        if state is None or self._named is None or self._named == state["epoch"]:
            return state
        if state["delivered"]:
            warnings.warn(
                f"the loader's state is in the middle of epoch {state['epoch']}, and set_epoch({self._named}) begins another one: "
                "what is left of the state's epoch is not read",
                stacklevel=4,
            )
        return None

    def _first_seed(self) -> int:
        """Returns a seed that is equal on every rank. A single rank reads it from torch's generator, without
        advancing the generator.
        """
        own = _reproducible.seed()
        if own is not None or place().world_size > 1 or self._named is not None:
            return own or 0
        with torch.random.fork_rng(devices=[]):
            return int(torch.empty((), dtype=torch.int64).random_().item())

    def ended(self, units: Units) -> None:
        """Records that the iteration over `units` has reached its end."""
        self._ended = self._ended or units is self._now

    def state_dict(self) -> dict[str, Any]:
        now = self._now
        if self._loaded is not None:
            return dict(self._loaded)
        epoch, delivered, check = self.epoch, 0, None
        if now is not None and not self._ended:
            epoch, delivered, check = self.epoch - 1, now.delivered, now.check
        if self.seed is None:
            self.seed = self._first_seed()
        return {
            "version": VERSION,
            "kind": self.kind.name,
            "epoch": epoch,
            "seed": self.seed,
            "delivered": delivered,
            "rows": self.kind.rows,
            "order": self.kind.order_name,
            "multiple": self.multiple,
            "world": self.world,
            "check": check,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state, Mapping) or not state.keys() >= _KEYS:
            raise ValueError("this is no state of a prepared loader: it is what loader.state_dict() returned")
        if state["version"] != VERSION:
            raise ValueError(f"the loader's state is of version {state['version']}, this rtrain reads version {VERSION}")
        if state["kind"] != self.kind.name:
            raise ValueError(
                f"the state is of a loader that counts {state['kind']}, and this loader counts {self.kind.name}: its sampler or batch "
                "sampler is another one. Make the loader as it was, or start the epoch again without load_state_dict"
            )
        if state["delivered"] and None not in (state.get("rows"), self.kind.rows) and state["rows"] != self.kind.rows:
            raise ValueError(
                f"the state is of a loader over {state.get('rows')} rows, and this one has {self.kind.rows}: an epoch that was begun cannot go "
                "on. Without load_state_dict, the epoch starts from its beginning"
            )
        if state["delivered"] and state.get("order", self.kind.order_name) != self.kind.order_name:
            raise ValueError(
                f"the state is in the middle of an epoch whose rows came {state['order']}, and this loader's come {self.kind.order_name}: "
                "rows would come twice or never. Make the loader as it was, or start the epoch again without load_state_dict"
            )
        self._same_world(state)
        self.seed, self.multiple = int(state["seed"]), int(state.get("multiple") or self.kind.multiple)
        self.epoch, self._loaded, self._now = int(state["epoch"]), dict(state), None

    def _same_world(self, state: Mapping[str, Any]) -> None:
        before = state.get("world")
        if state["delivered"] and before != self.world:
            raise ValueError(
                f"the state counts what a rank's own sampler or share gave on {before or 'any number of'} ranks, and this loader's is for "
                f"{self.world or 'any number of'}: in the middle of an epoch only a loader that prepare_data_loader divides can go on with "
                "another number of ranks. Give it the whole dataset without a sampler that divides it"
            )


class EpochHook:
    """Replaces a sampler's `set_epoch`: calls the sampler's own, then updates the loader's position."""

    def __init__(self, sampler: Any, position: Position) -> None:
        self.sampler, self.position = sampler, position
        self.own = vars(sampler).get("set_epoch")

    def __call__(self, epoch: int, *more: Any, **named: Any) -> None:
        if self.own is not None:
            self.own(epoch, *more, **named)
        else:
            own = getattr(type(self.sampler), "set_epoch", None)
            if own is not None:
                own(self.sampler, epoch, *more, **named)
        self.position.set_epoch(epoch, *more, **named)

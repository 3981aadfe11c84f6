"""Gives Lightning the ranks of the run, as a cluster environment."""

from __future__ import annotations

from rtrain._lazy import public_in
from rtrain.train.lightning._lightning import LightningEnvironment
from rtrain.train.torch._place import place


class RayLightningEnvironment(LightningEnvironment):
    """Makes Lightning use the existing ranks. It starts no process and changes no number."""

    @property
    def creates_processes_externally(self) -> bool:
        """True, since the run's agents have started the ranks."""
        return True

    def world_size(self) -> int:
        """Returns the run's number of workers."""
        return place().world_size

    def global_rank(self) -> int:
        """Returns this worker's number among all of them, from 0 on."""
        return place().world_rank

    def local_rank(self) -> int:
        """Returns this worker's number on its node, from 0 on."""
        return place().local_rank

    def node_rank(self) -> int:
        """Returns this node's number among those of the run, from 0 on."""
        return place().node_rank

    def set_world_size(self, size: int) -> None:
        """Does nothing, since the number of workers is fixed."""

    def set_global_rank(self, rank: int) -> None:
        """Does nothing, since the rank is fixed."""

    def teardown(self) -> None:
        """Does nothing, since there is no set-up to undo."""


public_in("rtrain.train.lightning", RayLightningEnvironment)

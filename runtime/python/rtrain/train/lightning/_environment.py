"""Who the ranks are, in Lightning's words."""

from __future__ import annotations

from rtrain._lazy import public_in
from rtrain.train.lightning._lightning import LightningEnvironment
from rtrain.train.torch._place import place


class RayLightningEnvironment(LightningEnvironment):
    """Tells Lightning that the ranks are there already: it starts no process and changes no number."""

    @property
    def creates_processes_externally(self) -> bool:
        """True: the run's agents have started the ranks."""
        return True

    def world_size(self) -> int:
        """Returns how many workers the run has."""
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
        """Does nothing: the number of workers stays what it is."""

    def set_global_rank(self, rank: int) -> None:
        """Does nothing: the rank stays what it is."""

    def teardown(self) -> None:
        """Does nothing: nothing was set up."""


public_in("rtrain.train.lightning", RayLightningEnvironment)

"""Who the ranks are, in Lightning's words."""

from __future__ import annotations

from rtrain._lazy import public_in
from rtrain.train.lightning._lightning import LightningEnvironment
from rtrain.train.torch._place import place


class RayLightningEnvironment(LightningEnvironment):
    """The ranks are there already: Lightning starts no process and changes no number."""

    @property
    def creates_processes_externally(self) -> bool:
        """True: the run's agents have started the ranks."""
        return True

    def world_size(self) -> int:
        return place().world_size

    def global_rank(self) -> int:
        return place().world_rank

    def local_rank(self) -> int:
        return place().local_rank

    def node_rank(self) -> int:
        return place().node_rank

    def set_world_size(self, size: int) -> None:
        """The run's size stays what it is."""

    def set_global_rank(self, rank: int) -> None:
        """The rank stays what it is."""

    def teardown(self) -> None:
        """Nothing was set up."""


public_in("rtrain.train.lightning", RayLightningEnvironment)

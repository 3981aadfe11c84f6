"""Where loops that earlier versions pickled find these names, which lie in `_session._checkpoint_request`."""

from rtrain.train._session._checkpoint_request import CheckpointWanted, checkpoint_wanted

__all__ = ["CheckpointWanted", "checkpoint_wanted"]

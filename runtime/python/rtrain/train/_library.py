"""Where exceptions that earlier versions pickled find their classes, which lie in `_session._library`."""

from rtrain.train._session._library import AgentGoneError, CheckpointUploadError, Stopped

__all__ = ["AgentGoneError", "CheckpointUploadError", "Stopped"]

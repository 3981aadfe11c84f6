"""What a worker of `fit()` has beyond a bare one: its datasets' shares, `stop` as a function, validation, metadata."""

from __future__ import annotations

from rtrain.train._package import Payload
from rtrain.train._session import Session


def prepare(session: Session, payload: Payload) -> None:
    from rtrain.train._cluster_session import ClusterSession
    from rtrain.train._datasets import Shards

    if not isinstance(session, ClusterSession):
        return
    session.metadata = payload.header.get("metadata") or {}
    if "datasets" in payload.parts:
        session.shards = Shards(payload.part("datasets"), payload.part("data_config"), session.facts)
    if "stop" in payload.parts:
        session.stop = payload.part("stop")
    session.validates = bool(payload.header.get("validation"))
    session.resume_from = payload.header.get("resume_from")

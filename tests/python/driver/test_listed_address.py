"""The address that the listings of rtrain.util.state take."""

from __future__ import annotations

import pathlib

import pytest
import rtrain
from rtrain._local_cluster import LocalCluster
from rtrain.util import state


def test_a_listing_of_an_address_that_does_not_answer_starts_no_cluster(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(LocalCluster, "start", lambda *given: started.append(given))
    monkeypatch.setenv("RTRAIN_CONFIG", str(tmp_path / "none.yaml"))
    for name in ("RTRAIN_ADDRESS", "RTRAIN_CONTEXT", "RTRAIN_TOKEN", "RTRAIN_CA"):
        monkeypatch.delenv(name, raising=False)
    assert not rtrain.is_initialized()
    for call in (state.list_nodes, state.list_jobs, lambda address: state.get_task("r-1", address)):
        with pytest.raises(ConnectionError, match="127.0.0.1:1"):
            call("127.0.0.1:1")
    assert started == [] and not rtrain.is_initialized()

"""Who this worker is."""

from __future__ import annotations

import json
from typing import Any

from rtrain.train import _worker
from rtrain.train._library import check, library


class TrainContext:
    """The facts about this worker; they do not change while the process lives."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts

    def _number(self, key: str) -> int:
        return int(self._facts[key])

    def _text(self, key: str) -> str:
        return str(self._facts.get(key) or "")

    def get_world_size(self) -> int:
        return self._number("world_size")

    def get_world_rank(self) -> int:
        return self._number("world_rank")

    def get_local_rank(self) -> int:
        return self._number("local_rank")

    def get_local_world_size(self) -> int:
        return self._number("local_world_size")

    def get_node_rank(self) -> int:
        return self._number("node_rank")

    def get_node(self) -> str:
        """The name of the node that this worker runs on."""
        return self._text("node")

    def get_experiment_name(self) -> str:
        return self._text("run_name")

    def get_run_id(self) -> str:
        return self._text("run_id")

    def get_attempt(self) -> int:
        """1 at the first start; one more after each failure, resize or restore."""
        return self._number("attempt")

    def get_run_path(self) -> str:
        """Where the run's directory lies: a path or a URI."""
        return self._text("run_path")

    def get_trial_name(self) -> str:
        return self.get_experiment_name()

    def get_trial_id(self) -> str:
        return self.get_run_id()

    def get_trial_dir(self) -> str:
        return self.get_run_path()

    def __repr__(self) -> str:
        return f"TrainContext({self._facts!r})"


def get_context() -> TrainContext:
    """Who this worker is. RuntimeError outside of a worker."""
    text = library().rtw_context_json(_worker.handle("get_context"))
    if text is None:
        check(6, "get_context")
    return TrainContext(json.loads(text))

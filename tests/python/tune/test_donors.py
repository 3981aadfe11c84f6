"""Which checkpoint of a donor a moved trial starts from, while the donor's retention deletes older ones."""

import json
from types import SimpleNamespace

from rtrain.tune._runs import TrialRuns
from rtrain.tune._trial import Leg, Trial


class HeadThatDeletes:
    """A head whose run commits the checkpoint `new` between the list and the mark on `old`: `old` is being deleted then, and the mark
    comes too late, though it is answered with 200 as a mark in time is."""

    def __init__(self) -> None:
        self.listed = 0
        self.marked: list[str] = []

    def items(self, route: str) -> list[dict[str, object]]:
        self.listed += 1
        old = {"directory": "old", "path": "/run/old", "latest": self.listed == 1, "deleting": self.listed > 1, "metrics": {}}
        new = {"directory": "new", "path": "/run/new", "latest": True, "deleting": False, "metrics": {"training_iteration": 2}}
        return [old] if self.listed == 1 else [old, new]

    def put(self, route: str, content: bytes) -> None:
        assert json.loads(content)["status"] == "PENDING_VALIDATION"
        self.marked.append(route.rsplit("validation-", 1)[1])


def test_a_mark_that_comes_too_late_holds_nothing_and_the_newer_checkpoint_is_taken():
    head = HeadThatDeletes()
    runs = TrialRuns(head, None, SimpleNamespace(wrapped=SimpleNamespace(trainable=None)))
    trial = Trial("t", "t", {}, {}, [Leg("t-2", {}, resume_from="donor")])
    checkpoint = runs._donor(trial, [Leg("donor", {}, run_id="7")])
    assert checkpoint.path == "/run/new" and trial.leg.base == {"training_iteration": 2.0}
    assert head.marked == ["old", "new"] and list(runs._held) == ["t"] and runs._held["t"].endswith("validation-new")

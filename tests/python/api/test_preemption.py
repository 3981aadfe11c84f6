"""Each rank of a preempted run gets the deadline before it is ended."""

from __future__ import annotations

import json
import time

from local_cluster import LocalCluster, wait_for
from rtrain import train
from rtrain.train import Checkpoint, DataParallelTrainer, RunConfig, ScalingConfig

GRACE_S = 45


class WithQueue(LocalCluster):
    """A cluster with one queue in which urgent runs preempt others."""

    def start_head(self):
        queues = self.folder / "queues.yaml"
        queues.write_text(json.dumps({"version": 1, "preemption_grace": f"{GRACE_S}s", "queues": {"default": {"preempt": True}}}))
        self.start("head", "head", "start", "--port", self.port, "--data", self.folder / "head", "--queues", queues)


def test_a_preempted_run_hears_until_when_and_goes_on_afterwards(cluster, tmp_path, monkeypatch):
    asked = time.time()

    def polite(config):
        import pathlib
        import threading

        signals = pathlib.Path(config["told"])
        began = train.get_checkpoint()
        if began is not None:
            return began.to_dict()
        train.report({"here": 1})
        (signals / f"rank-{train.get_context().get_world_rank()}").touch()
        while (going := train.get_preemption_info()) is None:
            threading.Event().wait(0.05)
        notice = {"until": going.deadline_ms, "ranks": going.preempted_ranks, "nodes": going.preempted_node_ids}
        everybody = train.collective.broadcast_from_rank_zero(notice)
        train.report({"same": notice == everybody, "asked": train.should_checkpoint()}, Checkpoint.from_dict(notice))
        threading.Event().wait()

    own = WithQueue(tmp_path / "own", nodes=1, resources="CPU=2")
    try:
        monkeypatch.setenv("RTRAIN_CONFIG", own.env["RTRAIN_CONFIG"])
        job = {"version": 1, "name": "urgent", "entrypoint": ["true"], "priority": 90, "scaling": {"workers": 2}}
        (tmp_path / "urgent.yaml").write_text(json.dumps(job))

        class Urgent(train.UserCallback):
            def after_report(self, run_context, metrics, checkpoint):
                if "here" in metrics[0]:
                    wait_for("both ranks", lambda: len(list((tmp_path).glob("rank-*"))) == 2)
                    own.rtrain("submit", tmp_path / "urgent.yaml")
                else:
                    self.metrics = metrics

        urgent = Urgent()
        result = DataParallelTrainer(
            polite,
            train_loop_config={"told": str(tmp_path)},
            scaling_config=ScalingConfig(num_workers=2),
            run_config=RunConfig(name="polite", priority=10, callbacks=[urgent]),
        ).fit()
        notice = result.return_value
        assert urgent.metrics == [{"same": True, "asked": True}] * 2
        assert (notice["ranks"], notice["nodes"]) == ([0, 1], ["node-1"])
        assert asked < notice["until"] / 1000 - GRACE_S + 1 < time.time()
        assert own.json("describe", "urgent")["state"] == "SUCCEEDED"
        assert [one["state"] for one in own.json("describe", "polite")["attempt_list"]][-1] == "SUCCEEDED"
    finally:
        own.stop()

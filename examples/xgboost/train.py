"""Handwritten digits with XGBoost on two workers: each has half of the rows, and both build the same trees.

Runs under `rtrain submit job.yaml` with `backend: {name: xgboost}`, which sets the tracker's address in every worker. Rank 0
starts the tracker there. Makes a checkpoint every five rounds; resumes from the newest.
"""

import os
from typing import Any

import rtrain.train
import xgboost
from sklearn.datasets import load_digits
from xgboost import collective
from xgboost.callback import TrainingCallback
from xgboost.tracker import RabitTracker

ROUNDS = int(os.environ.get("ROUNDS", "20"))
EVERY = 5
TEST_ROWS = 360


class Report(TrainingCallback):
    """Reports each round, with rank 0's model every `EVERY` rounds."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        metrics = {"round": model.num_boosted_rounds(), "error": evals_log["test"]["merror"][-1]}
        if self.rank != 0 or metrics["round"] % EVERY:
            rtrain.train.report(metrics)
            return False
        with rtrain.train.checkpoint_dir() as directory:
            model.save_model(f"{directory}/model.json")
            rtrain.train.report(metrics, checkpoint=directory)
        print(f"round {metrics['round']}: test error {metrics['error']:.4f}", flush=True)
        return False


def resumed() -> tuple[xgboost.Booster | None, int]:
    """Returns the trees of the newest checkpoint, and their number of rounds."""
    checkpoint = rtrain.train.get_checkpoint()
    if checkpoint is None:
        return None, 0
    model = xgboost.Booster(model_file=f"{checkpoint.path}/model.json")
    print(f"resumed after round {model.num_boosted_rounds()}", flush=True)
    return model, model.num_boosted_rounds()


def train(rank: int, world_size: int) -> xgboost.Booster:
    pixels, labels = load_digits(return_X_y=True)
    rows = slice(rank, len(labels) - TEST_ROWS, world_size)
    share = xgboost.DMatrix(pixels[rows], labels[rows])
    test = xgboost.DMatrix(pixels[-TEST_ROWS:], labels[-TEST_ROWS:])
    parameters = {"objective": "multi:softmax", "num_class": 10, "eval_metric": "merror", "max_depth": 4, "nthread": 1}
    model, done = resumed()
    return xgboost.train(
        parameters, share, ROUNDS - done, evals=[(test, "test")], xgb_model=model, callbacks=[Report(rank)], verbose_eval=False
    )


def main() -> None:
    rank, world_size = int(os.environ["DMLC_TASK_ID"]), int(os.environ["DMLC_NUM_WORKER"])
    address, port = os.environ["DMLC_TRACKER_URI"], int(os.environ["DMLC_TRACKER_PORT"])
    tracker = RabitTracker(n_workers=world_size, host_ip=address, port=port) if rank == 0 else None
    if tracker:
        tracker.start()
    with collective.CommunicatorContext(dmlc_tracker_uri=address, dmlc_tracker_port=port, dmlc_task_id=str(rank)):
        model = train(rank, world_size)
        if rank == 0:
            print(f"{model.num_boosted_rounds()} rounds on {collective.get_world_size()} workers", flush=True)
    if tracker:
        tracker.wait_for()


if __name__ == "__main__":
    main()

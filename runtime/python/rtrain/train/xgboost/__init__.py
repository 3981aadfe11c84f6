"""XGBoost: the names of the incumbent's trainers; making one says what to do instead."""

from rtrain.train._refused import refused

_INSTEAD = (
    "run the script itself with `rtrain submit job.yaml` and `backend: {name: xgboost}`; the tracker's "
    "address is set in every worker (DMLC_TRACKER_URI, DMLC_TRACKER_PORT), and examples/xgboost is a whole "
    "job"
)

XGBoostTrainer = refused("XGBoostTrainer", _INSTEAD, __name__)
XGBoostConfig = refused("XGBoostConfig", _INSTEAD, __name__)
XGBoostCheckpoint = refused("XGBoostCheckpoint", _INSTEAD, __name__)
RayTrainReportCallback = refused("RayTrainReportCallback", _INSTEAD, __name__)

__all__ = ["RayTrainReportCallback", "XGBoostCheckpoint", "XGBoostConfig", "XGBoostTrainer"]

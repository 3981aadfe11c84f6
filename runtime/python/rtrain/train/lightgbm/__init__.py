"""LightGBM: the names of the incumbent's trainers; making one says what to do instead."""

from rtrain.train._refused import refused, refused_function

_INSTEAD = (
    "run the script itself with `rtrain submit job.yaml`; make LightGBM's `machines` list from the ranks' "
    "addresses, and report with `rtrain.train.report`"
)

LightGBMTrainer = refused("LightGBMTrainer", _INSTEAD, __name__)
LightGBMConfig = refused("LightGBMConfig", _INSTEAD, __name__)
RayTrainReportCallback = refused("RayTrainReportCallback", _INSTEAD, __name__)
get_network_params = refused_function("get_network_params", _INSTEAD, __name__)
normalize_pandas_for_lightgbm = refused_function("normalize_pandas_for_lightgbm", _INSTEAD, __name__)

__all__ = [
    "LightGBMConfig",
    "LightGBMTrainer",
    "RayTrainReportCallback",
    "get_network_params",
    "normalize_pandas_for_lightgbm",
]

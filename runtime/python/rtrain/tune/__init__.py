"""Many trials of one training with different configs: each trial is a run of the cluster.

Names are loaded when they are first used, so that `from rtrain import tune` is quick.
"""

from __future__ import annotations

import importlib
from typing import Any

_LAZY: dict[str, str] = {  # a public name, and the module that has it
    **dict.fromkeys(
        (
            "choice",
            "grid_search",
            "lograndint",
            "loguniform",
            "qlograndint",
            "qloguniform",
            "qrandint",
            "qrandn",
            "quniform",
            "randint",
            "randn",
            "sample_from",
            "uniform",
        ),
        "rtrain.tune.search.sample",
    ),
    **dict.fromkeys(("CheckpointConfig", "FailureConfig", "RunConfig", "TuneConfig"), "rtrain.tune._config"),
    **dict.fromkeys(("TuneContext", "get_checkpoint", "get_context", "report"), "rtrain.tune._context"),
    **dict.fromkeys(("PlacementGroupFactory", "with_parameters", "with_resources"), "rtrain.tune._trainable"),
    **dict.fromkeys(("CLIReporter", "JupyterNotebookReporter"), "rtrain.tune._table"),
    **dict.fromkeys(("ExperimentAnalysis", "run"), "rtrain.tune._run"),
    "Callback": "rtrain.tune.callback",
    "Checkpoint": "rtrain.train._checkpoint",
    "ResultGrid": "rtrain.tune._results",
    "SyncConfig": "rtrain.train._configs",
    "Stopper": "rtrain.tune.stopper",
    "Trainable": "rtrain.tune.trainable",
    "TuneError": "rtrain.tune._errors",
    "Tuner": "rtrain.tune._tuner",
    "create_scheduler": "rtrain.tune.schedulers",
    "create_searcher": "rtrain.tune.search",
}
_MODULES = ("callback", "integration", "schedulers", "search", "stopper", "trainable")


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"rtrain.tune.{name}")
    raise AttributeError(f"module 'rtrain.tune' has no attribute {name!r}")


__all__: list[str] = []
__all__.extend(_LAZY)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})

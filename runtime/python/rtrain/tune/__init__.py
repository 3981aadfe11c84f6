"""Many trials of one training with different configs: each trial is a run of the cluster.

Names are loaded when they are first used, so that `from rtrain import tune` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtrain._lazy import lazy_names

if TYPE_CHECKING:
    from rtrain.train._checkpoint import Checkpoint as Checkpoint
    from rtrain.train._configs import SyncConfig as SyncConfig
    from rtrain.tune import (
        callback as callback,
        integration as integration,
        logger as logger,
        progress_reporter as progress_reporter,
        schedulers as schedulers,
        search as search,
        stopper as stopper,
        trainable as trainable,
    )
    from rtrain.tune._config import (
        CheckpointConfig as CheckpointConfig,
        FailureConfig as FailureConfig,
        RunConfig as RunConfig,
        TuneConfig as TuneConfig,
    )
    from rtrain.tune._context import (
        TuneContext as TuneContext,
        get_checkpoint as get_checkpoint,
        get_context as get_context,
        report as report,
    )
    from rtrain.tune._errors import TuneError as TuneError
    from rtrain.tune._results import ResultGrid as ResultGrid
    from rtrain.tune._run import (
        ExperimentAnalysis as ExperimentAnalysis,
        run as run,
    )
    from rtrain.tune._trainable import (
        PlacementGroupFactory as PlacementGroupFactory,
        with_parameters as with_parameters,
        with_resources as with_resources,
    )
    from rtrain.tune._tuner import Tuner as Tuner
    from rtrain.tune.callback import Callback as Callback
    from rtrain.tune.progress_reporter import (
        CLIReporter as CLIReporter,
        JupyterNotebookReporter as JupyterNotebookReporter,
        ProgressReporter as ProgressReporter,
    )
    from rtrain.tune.schedulers import create_scheduler as create_scheduler
    from rtrain.tune.search import create_searcher as create_searcher
    from rtrain.tune.search.sample import (
        choice as choice,
        grid_search as grid_search,
        lograndint as lograndint,
        loguniform as loguniform,
        qlograndint as qlograndint,
        qloguniform as qloguniform,
        qrandint as qrandint,
        qrandn as qrandn,
        quniform as quniform,
        randint as randint,
        randn as randn,
        sample_from as sample_from,
        uniform as uniform,
    )
    from rtrain.tune.stopper import Stopper as Stopper
    from rtrain.tune.trainable import Trainable as Trainable
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)

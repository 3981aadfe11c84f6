"""Schedulers: they end trials early, or change them while they run."""

from rtrain.train._refused import refused
from rtrain.tune.schedulers._scheduler import Exploit, FIFOScheduler, TrialScheduler
from rtrain.tune.schedulers.async_hyperband import ASHAScheduler, AsyncHyperBandScheduler
from rtrain.tune.schedulers.median_stopping_rule import MedianStoppingRule
from rtrain.tune.schedulers.pbt import PopulationBasedTraining

_INSTEAD = "ASHAScheduler, MedianStoppingRule and PopulationBasedTraining are there; or derive one from TrialScheduler"
HyperBandScheduler = refused("HyperBandScheduler", f"it pauses trials, which ASHAScheduler does without; {_INSTEAD}", __name__)
HyperBandForBOHB = refused("HyperBandForBOHB", _INSTEAD, __name__)
PB2 = refused("PB2", _INSTEAD, __name__)
PopulationBasedTrainingReplay = refused("PopulationBasedTrainingReplay", _INSTEAD, __name__)
ResourceChangingScheduler = refused(
    "ResourceChangingScheduler", f"`rtrain resize RUN N` resizes a trial's run; {_INSTEAD}", __name__
)

_NAMES: dict[str, type] = {
    "fifo": FIFOScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "asha": ASHAScheduler,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "pbt": PopulationBasedTraining,
    "hyperband": HyperBandScheduler,
    "hb_bohb": HyperBandForBOHB,
    "pb2": PB2,
    "pbt_replay": PopulationBasedTrainingReplay,
    "resource_changing": ResourceChangingScheduler,
}


def create_scheduler(scheduler: str, **arguments: object) -> TrialScheduler:
    """Returns a scheduler by its name: fifo, async_hyperband (or asha), median_stopping_rule, pbt. ValueError for another name."""
    kind = _NAMES.get(scheduler.lower())
    if kind is None:
        raise ValueError(
            f"there is no scheduler {scheduler!r}; there are: fifo, async_hyperband, asha, median_stopping_rule, pbt"
        )
    trial_scheduler: TrialScheduler = kind(**arguments)
    return trial_scheduler


__all__ = [
    "PB2",
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "Exploit",
    "FIFOScheduler",
    "HyperBandForBOHB",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "PopulationBasedTrainingReplay",
    "ResourceChangingScheduler",
    "TrialScheduler",
    "create_scheduler",
]

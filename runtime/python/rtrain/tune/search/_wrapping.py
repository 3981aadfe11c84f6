"""The refusals of the searchers of other libraries, which rtrain does not have."""

WRAP_IT = (
    "tune.search.BasicVariantGenerator (grids and random draws) is there; another library's searcher is wrapped by a class "
    "derived from rtrain.tune.search.Searcher, whose suggest() asks it and whose on_trial_complete() tells it"
)

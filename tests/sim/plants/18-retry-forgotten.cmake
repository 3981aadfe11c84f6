# Breaks the cluster index: the retry times of a run stay in it when the run no longer waits.
set(PLANT_FILE scheduler/index/cluster_index.cpp)
set(PLANT_FROM [==[    if (known.retry) retries_.erase({*known.retry, id});
]==])
set(PLANT_TO "")

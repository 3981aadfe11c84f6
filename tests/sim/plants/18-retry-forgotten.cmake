# Breaks the cluster index: the times at which runs retry are left behind when the run no longer waits.
set(PLANT_FILE scheduler/index/cluster_index.cpp)
set(PLANT_FROM [==[    if (known.retry) retries_.erase({*known.retry, id});
]==])
set(PLANT_TO "")

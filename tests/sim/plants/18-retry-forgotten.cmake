# Breaks the cluster index: the retry times of a run stay in it when the run no longer waits.
set(PLANT_FILE scheduler/index/tables/run_times.cpp)
set(PLANT_FROM [==[    if (times.retry) retries_.erase({*times.retry, id});
]==])
set(PLANT_TO "")

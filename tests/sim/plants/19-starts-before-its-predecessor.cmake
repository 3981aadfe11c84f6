# Breaks --after: a run that waits for another one is placed as if it did not wait.
set(PLANT_FILE scheduler/index/cluster_index.cpp)
set(PLANT_FROM [==[ && !core::is_blocked(run);
]==])
set(PLANT_TO [==[ && !run.array_waits;
]==])

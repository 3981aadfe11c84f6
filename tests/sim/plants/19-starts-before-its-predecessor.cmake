# Breaks --after: a run that waits for another one is placed as if it did not.
set(PLANT_FILE scheduler/ledger.cpp)
set(PLANT_FROM [==[ && !held_back(run);
]==])
set(PLANT_TO [==[ && !run.array_waits;
]==])

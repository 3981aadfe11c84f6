# Breaks --after: a run that waits for another one is placed as if it did not.
set(PLANT_FILE scheduler/ledger.cpp)
set(PLANT_FROM [==[ && run.after.empty() && !run.array_waits;
]==])
set(PLANT_TO [==[ && !run.array_waits;
]==])

# Breaks invariant 6: an end that is no fault of the run counts as its failure.
set(PLANT_FILE scheduler/lifecycle/attempts.cpp)
set(PLANT_FROM [==[    if (attempt.counted) ++run.failures;]==])
set(PLANT_TO [==[    ++run.failures;]==])

# Breaks invariant 6: what is no fault of a run counts against it.
set(PLANT_FILE scheduler/lifecycle/attempts.cpp)
set(PLANT_FROM [==[    if (attempt.counted) ++run.failures;]==])
set(PLANT_TO [==[    ++run.failures;]==])

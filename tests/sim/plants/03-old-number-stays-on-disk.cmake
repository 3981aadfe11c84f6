# Breaks invariants 7 and 12: a renumbered attempt is not erased from the records.
set(PLANT_FILE scheduler/index/change.cpp)
set(PLANT_FROM [==[    erased_attempts_.insert(from);
]==])
set(PLANT_TO [==[]==])

# Breaks invariant 11: a stopped run is tried again.
set(PLANT_FILE scheduler/lifecycle/attempts.cpp)
set(PLANT_FROM [==[    } else if (run.state == RunState::stopping || !run.stop_by.empty()) {]==])
set(PLANT_TO [==[    } else if (run.state == RunState::resizing) {]==])

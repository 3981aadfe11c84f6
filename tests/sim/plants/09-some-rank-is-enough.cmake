# Breaks invariant 6: a run succeeds once its first rank has ended.
set(PLANT_FILE scheduler/lifecycle/workers.cpp)
set(PLANT_FROM [==[    const bool all = std::all_of(seen->workers.begin(), seen->workers.end(),
                                 [](const Worker& w) { return w.exit && w.exit->success(); });]==])
set(PLANT_TO [==[    const bool all = std::any_of(seen->workers.begin(), seen->workers.end(),
                                 [](const Worker& w) { return w.exit && w.exit->success(); });]==])

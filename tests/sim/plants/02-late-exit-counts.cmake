# Breaks invariant 6: an exit of an attempt that is over changes it.
set(PLANT_FILE scheduler/lifecycle/workers.cpp)
set(PLANT_FROM [==[    if (seen == nullptr || terminal(seen->state) || event.rank.value >= seen->workers.size()) return;
    if (seen->workers[event.rank.value].state == WorkerState::exited) return;]==])
set(PLANT_TO [==[    if (seen == nullptr || event.rank.value >= seen->workers.size()) return;
    if (seen->workers[event.rank.value].state == WorkerState::exited) return;]==])

# Breaks invariant 6: the exit of a worker whose attempt is over changes the attempt.
set(PLANT_FILE scheduler/lifecycle/workers.cpp)
set(PLANT_FROM [==[    if (seen == nullptr || terminal(seen->state) || event.rank.value >= seen->workers.size()) return;
    if (seen->workers[event.rank.value].state == WorkerState::exited) return;]==])
set(PLANT_TO [==[    if (seen == nullptr || event.rank.value >= seen->workers.size()) return;
    if (seen->workers[event.rank.value].state == WorkerState::exited) return;]==])

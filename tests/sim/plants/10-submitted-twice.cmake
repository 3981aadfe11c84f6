# Breaks invariant 6: a submission that is repeated late makes a second run.
set(PLANT_FILE scheduler/lifecycle/runs.cpp)
set(PLANT_FROM [==[    return id ? &cluster.runs.at(*id) : nullptr;]==])
set(PLANT_TO [==[    return id && !terminal(cluster.runs.at(*id).state) ? &cluster.runs.at(*id) : nullptr;]==])

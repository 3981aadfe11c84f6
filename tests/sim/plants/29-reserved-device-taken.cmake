# Breaks reservations: a run that is placed before a reserving run gets GPUs that are reserved for it.
set(PLANT_FILE scheduler/placement/node_holds.cpp)
set(PLANT_FROM [==[        room.gpus[device] = std::min(room.gpus[device], less(then, seats.gpus[device]));
]==])
set(PLANT_TO [==[        room.gpus[device] = std::min(room.gpus[device], then);
]==])

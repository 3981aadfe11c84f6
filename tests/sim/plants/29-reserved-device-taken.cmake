# Breaks reservations: a run that passes one is given the GPUs that it has reserved.
set(PLANT_FILE scheduler/placement/node_holds.cpp)
set(PLANT_FROM [==[        room.gpus[device] = std::min(room.gpus[device], less(then, seats.gpus[device]));
]==])
set(PLANT_TO [==[        room.gpus[device] = std::min(room.gpus[device], then);
]==])

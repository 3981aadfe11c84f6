# Breaks the memory of refusals: what an attempt gives back is free, but gangs that found no room are not told.
set(PLANT_FILE scheduler/index/nodes.cpp)
set(PLANT_FROM [==[    if (more) gains_.add(id);
]==])
set(PLANT_TO [==[    static_cast<void>(more);
]==])

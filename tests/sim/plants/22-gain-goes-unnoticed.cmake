# Breaks the memory of refusals: the resources that an attempt releases do not wake the gangs that found no room.
set(PLANT_FILE scheduler/index/tables/node_table.cpp)
set(PLANT_FROM [==[    if (more) gains_.add(id);
]==])
set(PLANT_TO [==[    static_cast<void>(more);
]==])

# Breaks invariant 2: an attempt releases its part of a device twice when others hold the rest of the device.
set(PLANT_FILE scheduler/index/tables/node_table.cpp)
set(PLANT_FROM [==[            standing.gpus_used[share.device] = standing.gpus_used[share.device] - share.amount;
]==])
set(PLANT_TO [==[            for (int twice = 0; twice < 2 && standing.gpus_used[share.device] >= share.amount; ++twice)
                standing.gpus_used[share.device] = standing.gpus_used[share.device] - share.amount;
]==])

# Breaks invariant 2: what an attempt holds of a GPU is not taken from the free amounts.
set(PLANT_FILE scheduler/index/tables/node_table.cpp)
set(PLANT_FROM [==[        if (share.device >= view.gpus_free.size()) continue;
]==])
set(PLANT_TO [==[        if (share.device >= view.gpus_free.size() || shares.size() <= 8) continue;
]==])

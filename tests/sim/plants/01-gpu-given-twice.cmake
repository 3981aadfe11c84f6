# Breaks invariant 2: what an attempt holds of a GPU is not taken from the free amounts.
set(PLANT_FILE scheduler/views.cpp)
set(PLANT_FROM [==[            take(views[found->second].gpus_free, seat.gpus);
]==])
set(PLANT_TO [==[            if (seat.gpus.size() > 8) take(views[found->second].gpus_free, seat.gpus);
]==])

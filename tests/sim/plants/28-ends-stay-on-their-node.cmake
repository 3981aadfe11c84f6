# Breaks the ends of ranks: a node without the coordinator does not send them, so that other ranks wait for ended ones.
set(PLANT_FILE daemon/agent/machine/local_ranks.cpp)
set(PLANT_FROM [==[    if (!arrived.ended.empty() || !arrived.ended_unwatched.empty()) send(local, std::move(arrived), sink);]==])
set(PLANT_TO [==[    if (local.coordinates) send(local, std::move(arrived), sink);]==])

# Breaks the ends of ranks: those of nodes without the coordinator are not sent to it, so that others wait for them.
set(PLANT_FILE daemon/agent/machine/local_ranks.cpp)
set(PLANT_FROM [==[    if (!arrived.ended.empty() || !arrived.ended_unwatched.empty()) send(local, std::move(arrived), sink);]==])
set(PLANT_TO [==[    if (local.coordinates) send(local, std::move(arrived), sink);]==])

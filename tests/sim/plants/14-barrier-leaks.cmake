# Breaks the barrier: a report is passed once the first node has come.
set(PLANT_FILE daemon/agent/machine/coordinator.cpp)
set(PLANT_FROM [==[const bool all_here = entry->second.nodes.size() == c.nodes.size();]==])
set(PLANT_TO [==[const bool all_here = !entry->second.nodes.empty();]==])

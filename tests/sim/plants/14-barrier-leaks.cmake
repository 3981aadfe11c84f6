# Breaks the barrier: a report is passed once the first node has come.
set(PLANT_FILE daemon/agent/machine/coordinator.cpp)
set(PLANT_FROM [==[entry->second.nodes.size() + (own_gone ? 1 : 0) != c.nodes.size()]==])
set(PLANT_TO [==[entry->second.nodes.size() + (own_gone ? 1 : 0) == 0]==])

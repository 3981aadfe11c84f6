# Breaks invariant 8: an agent that comes back keeps the workers of an attempt that was given up.
set(PLANT_FILE scheduler/lifecycle/nodes.cpp)
set(PLANT_FROM [==[            give_up(change, id, attempt, event.node);]==])
set(PLANT_TO [==[            (void)give_up;]==])

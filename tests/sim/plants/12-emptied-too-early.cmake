# Breaks invariant 8: an agent reports that it is empty while processes live.
set(PLANT_FILE daemon/agent/machine/attempt.cpp)
set(PLANT_FROM [==[    if (!all_exited(*attempt)) return;]==])
set(PLANT_TO [==[    (void)all_exited;]==])

# Breaks the bond of a helper: it goes on while its owner is preempted.
set(PLANT_FILE scheduler/lifecycle/checkpoint_requests.cpp)
set(PLANT_FROM [==[    if (request.reason == RequestReason::preemption) end_helpers(change, id.run);
]==])
set(PLANT_TO "")
set(PLANT_FLAGS --yielding)

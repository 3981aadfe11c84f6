# Breaks checkpoint requests: a checkpoint that was on its way before the request fulfils it.
set(PLANT_FILE scheduler/lifecycle/checkpoint_requests.cpp)
set(PLANT_FROM [==[    if (answers && *answers != change.seen().attempts.at(id).request->asked) return;
]==])
set(PLANT_TO [==[    static_cast<void>(answers);
]==])

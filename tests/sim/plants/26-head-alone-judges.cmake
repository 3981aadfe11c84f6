# Breaks the leases: a machine that answers its neighbours is lost once the head alone got no answer.
set(PLANT_FILE daemon/head/events/leases.cpp)
set(PLANT_FROM [==[    if (!doubt.answered && doubt.silent == doubt.asked) {]==])
set(PLANT_TO [==[    if (doubt.silent.contains(dialled_by_head)) {]==])

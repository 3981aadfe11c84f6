# Breaks the index of free slots: what an attempt takes or gives back is shown, but the index is not told.
set(PLANT_FILE scheduler/index/nodes.cpp)
set(PLANT_FROM [==[    if (more) gains_.add(id);
    free_slots_.put_free(view);
}
]==])
set(PLANT_TO [==[    if (more) gains_.add(id);
}
]==])

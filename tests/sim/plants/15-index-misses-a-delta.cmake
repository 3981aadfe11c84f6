# Breaks the index of free slots: an attempt takes or releases resources, and the index is not updated.
set(PLANT_FILE scheduler/index/nodes.cpp)
set(PLANT_FROM [==[    if (more) gains_.add(id);
    free_slots_.put_free(view);
}
]==])
set(PLANT_TO [==[    if (more) gains_.add(id);
}
]==])

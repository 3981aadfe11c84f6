# Breaks the index of free slots: an attempt takes or releases resources, and the index is not updated.
set(PLANT_FILE scheduler/index/tables/node_table.cpp)
set(PLANT_FROM [==[    if (more) gains_.add(id);
    free_slots_.put_free(view);
}
]==])
set(PLANT_TO [==[    if (more) gains_.add(id);
}
]==])

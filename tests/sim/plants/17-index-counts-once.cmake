# Breaks the index of free slots: a node that the index has already is not counted again for the shapes that it keeps.
set(PLANT_FILE scheduler/placement/free_index.cpp)
set(PLANT_FROM [==[    nodes_[entry->second] = node;
    changed(entry->second, What::all);
]==])
set(PLANT_TO [==[    nodes_[entry->second] = node;
    if (added) changed(entry->second, What::all);
]==])

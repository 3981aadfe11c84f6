# Breaks invariant 6: a preparation order that a node never received is not sent again.
set(PLANT_FILE scheduler/lifecycle/nodes.cpp)
set(PLANT_FROM [==[    prepare_node(change, edited, node);]==])
set(PLANT_TO [==[    return;]==])

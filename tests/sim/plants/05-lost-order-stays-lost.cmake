# Breaks invariant 6: a preparation order that a node never received is not sent again.
set(PLANT_FILE scheduler/lifecycle/nodes.cpp)
set(PLANT_FROM [==[            return prepare_node(change, attempt, node);
        }]==])
set(PLANT_TO [==[            return;
        }]==])

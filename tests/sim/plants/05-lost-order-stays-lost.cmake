# Breaks invariant 6: a preparation that a node never heard of is not said again.
set(PLANT_FILE scheduler/lifecycle/nodes.cpp)
set(PLANT_FROM [==[            return prepare_node(change, attempt, node);
        }]==])
set(PLANT_TO [==[            return;
        }]==])

# Breaks invariant 4: retention may delete the latest commit.
set(PLANT_FILE scheduler/lifecycle/checkpoints.cpp)
set(PLANT_FROM [==[        if (&one != latest && !pinned && !one.validating)]==])
set(PLANT_TO [==[        if (latest == nullptr || (!pinned && !one.validating))]==])

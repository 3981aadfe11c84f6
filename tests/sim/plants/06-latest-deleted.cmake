# Breaks invariant 4: retention may delete the latest commit.
set(PLANT_FILE scheduler/lifecycle/checkpoints.cpp)
set(PLANT_FROM [==[        if (&checkpoint != latest && !pinned && !checkpoint.validating)]==])
set(PLANT_TO [==[        if (latest == nullptr || (!pinned && !checkpoint.validating))]==])

# Breaks design 8: a node is empty once its part of the last checkpoint is stored, whether the coordinator knows it or not.
set(PLANT_FILE daemon/agent/machine/group.cpp)
set(PLANT_FROM [==[    return !attempt.local || !attempt.local->upload;]==])
set(PLANT_TO [==[    return !attempt.local || !attempt.local->upload || attempt.local->upload->done;]==])

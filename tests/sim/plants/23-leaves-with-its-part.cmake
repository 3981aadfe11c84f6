# A node counts as empty once its part of the last checkpoint is stored, before the coordinator has that news.
set(PLANT_FILE daemon/agent/machine/group.cpp)
set(PLANT_FROM [==[    return !attempt.local || !attempt.local->upload;]==])
set(PLANT_TO [==[    return !attempt.local || !attempt.local->upload || attempt.local->upload->done;]==])

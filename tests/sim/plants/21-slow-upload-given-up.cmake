# An attempt that has ended gives up its last checkpoint after a minute, though the upload still advances.
set(PLANT_FILE daemon/agent/machine/last_checkpoint.cpp)
set(PLANT_FROM [==[            return std::max({from, own.advanced_at, own.answered_at}) + Duration{stuck_ms};]==])
set(PLANT_TO [==[            return from + Duration{patience_ms};]==])

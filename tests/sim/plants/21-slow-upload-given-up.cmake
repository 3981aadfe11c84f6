# An attempt that has ended gives up its last checkpoint after a minute, though the upload still advances.
set(PLANT_FILE daemon/agent/machine/last_checkpoint.cpp)
set(PLANT_FROM [==[        if (own.running) return std::max({from, own.advanced_at, own.moved_at}) + Duration{stuck_ms};]==])
set(PLANT_TO [==[        if (own.running) return from + Duration{patience_ms};]==])

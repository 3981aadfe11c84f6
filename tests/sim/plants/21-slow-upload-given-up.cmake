# Breaks design 8: an attempt that has ended gives its last checkpoint up after a minute, though its upload goes on.
set(PLANT_FILE daemon/agent/machine/last_checkpoint.cpp)
set(PLANT_FROM [==[        if (own.running) return std::max({from, own.advanced_at, own.moved_at}) + Duration{stuck_ms};]==])
set(PLANT_TO [==[        if (own.running) return from + Duration{patience_ms};]==])

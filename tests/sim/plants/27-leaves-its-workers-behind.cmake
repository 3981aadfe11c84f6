# Breaks invariant 8: an agent whose node is taken away ends once its news are acknowledged, though workers live.
set(PLANT_FILE daemon/agent/machine/reclaim.cpp)
set(PLANT_FROM [==[    return state.attempts.empty() && (state.outbox.empty() || state.left) &&]==])
set(PLANT_TO [==[    return (state.outbox.empty() || state.left) &&]==])

# Breaks invariant 7: changes without a note are not made durable.
set(PLANT_FILE daemon/head/events/decisions.cpp)
set(PLANT_FROM [==[        if (!decision.save.empty() || !decision.note.empty())]==])
set(PLANT_TO [==[        if (!decision.note.empty())]==])

# Breaks invariant 6: news that were not acknowledged are not sent again.
set(PLANT_FILE daemon/agent/machine/news.cpp)
set(PLANT_FROM [==[    state.unsent_from = state.outbox.empty() ? 0 : state.outbox.begin()->first;]==])
set(PLANT_TO [==[    state.unsent_from = 0;]==])

# Breaks invariant 6: news that were not acknowledged are not said again.
set(PLANT_FILE daemon/agent/news.cpp)
set(PLANT_FROM [==[    for (const auto& [seq, news] : state.outbox) step.out.push_back(ToHead{news});]==])
set(PLANT_TO [==[]==])

# Breaks budgets: GPU time leaves a budget's window a slice too early.
set(PLANT_FILE scheduler/model/budgets.cpp)
set(PLANT_FROM [==[return slice.until.ms <= begin; });
]==])
set(PLANT_TO [==[return slice.until.ms <= begin + 3 * width; });
]==])
set(PLANT_FLAGS --budgets)

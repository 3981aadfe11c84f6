# Breaks invariant 6: a submission that is repeated late makes a second run.
set(PLANT_FILE scheduler/ledger.cpp)
set(PLANT_FROM [==[    if (!run.submit_key.empty()) submitted_.try_emplace({run.user, run.submit_key}, id);]==])
set(PLANT_TO [==[    if (!run.submit_key.empty() && known.live) submitted_.try_emplace({run.user, run.submit_key}, id);]==])

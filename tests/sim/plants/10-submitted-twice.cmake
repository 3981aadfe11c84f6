# Breaks invariant 6: a submission that is repeated late makes a second run.
set(PLANT_FILE scheduler/runs.cpp)
set(PLANT_FROM [==[        if (run.submit_key == event.submit_key && run.user == event.user) return &run;]==])
set(PLANT_TO [==[        if (run.submit_key == event.submit_key && run.user == event.user && !terminal(run.state)) return &run;]==])

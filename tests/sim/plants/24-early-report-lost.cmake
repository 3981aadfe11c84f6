# Breaks the barrier: a message of a node that arrives before rank 0's node has begun is lost, and its report waits for ever.
set(PLANT_FILE daemon/agent/machine/group.cpp)
set(PLANT_FROM [==[!attempt->local && coordinates_here(*attempt, step.state.node)]==])
set(PLANT_TO [==[attempt->adopted && !attempt->local && coordinates_here(*attempt, step.state.node)]==])

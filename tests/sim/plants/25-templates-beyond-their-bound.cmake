# Breaks --warm-memory: a template that is larger than expected evicts no other template.
set(PLANT_FILE daemon/agent/machine/templates.cpp)
set(PLANT_FROM [==[if (!make_room(step, input.key, input.bytes))]==])
set(PLANT_TO [==[if (input.bytes > templates.policy.memory_max)]==])

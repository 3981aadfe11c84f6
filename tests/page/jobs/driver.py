"""A driver: one remote call, and an actor that lives as long as the driver."""

import threading

import rtrain


@rtrain.remote(num_cpus=0.1)
def square(x):
    return x * x


@rtrain.remote(num_cpus=0.1)
class Counter:
    def add(self, count):
        return count + 1


counter = Counter.remote()
print(rtrain.get([square.remote(3), counter.add.remote(1)]), flush=True)
while True:
    threading.Event().wait(1)
    rtrain.get(counter.add.remote(1))

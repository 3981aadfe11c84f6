"""Definitions in an interactive session or a notebook, where no file has their source: a class, a closure, a module
of the working directory (`beside.py`, with a function `double`), a variable of `__main__`.
"""

DEFINES = """
import beside
from rtrain import train
from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig

class Net:
    def __init__(self, weight):
        self.weight = weight
    def forward(self):
        return beside.double(self.weight) * factor

factor = 7
def make(weight):
    def loop(config):
        train.report({"value": config["add"](Net(weight).forward()), "rank": train.get_context().get_world_rank()})
        return Net(weight)
    return loop
"""

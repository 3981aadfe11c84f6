"""Compiles a function with torch.compile. Prints the seconds, the cache's hits and misses, and the cache directories, as
JSON.
"""

import json
import os
import time

import torch
from torch._dynamo.utils import counters


def main():
    def step(x):
        for i in range(2):
            x = torch.sin(x @ x) * (i + 1) + torch.cos(x).softmax(-1)
        return x.sum()

    began = time.monotonic()
    torch.compile(step)(torch.ones(32, 32)).item()
    names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "HF_HOME")
    facts = {
        "seconds": round(time.monotonic() - began, 2),
        "hits": counters["inductor"]["fxgraph_cache_hit"],
        "misses": counters["inductor"]["fxgraph_cache_miss"],
        **{name: os.environ.get(name) for name in names},
    }
    print("facts " + json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()

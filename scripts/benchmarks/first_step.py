"""Measures the time from a submission, and from a launch by torchrun, to the first optimizer step of the same script in
alternating rounds. Used by scripts/bench first-step on the CPU, and by scripts/gpu-check on GPUs.
"""

import json
import pathlib
import re
import subprocess
import time

from local_cluster import ROOT, free_port

SCRIPT = ROOT / "tests" / "bench" / "jobs" / "first_step.py"


def torchrun(python, workers, *arguments):
    """Returns the command of torchrun on this machine."""
    return [python, "-m", "torch.distributed.run", "--nproc-per-node", workers, "--master-port", free_port(), *arguments]


def first_steps(cluster, folder, python, workers, rounds, gpus=0, prefix="step"):
    """Returns (seconds of rtrain, seconds of torchrun), a list of all rounds each, with that interpreter."""
    ours, theirs = [], []
    amounts = {"CPU": 1, **({"GPU": gpus} if gpus else {})}
    for number in range(rounds):
        begin = time.time()
        command = list(map(str, torchrun(python, workers, SCRIPT)))
        done = subprocess.run(command, capture_output=True, text=True, env=cluster.env, check=False, timeout=120)
        theirs.append(moment(done.stdout, done.stderr) - begin)
        spec = {
            "version": 1,
            "name": f"{prefix}-{number}",
            "entrypoint": [str(python), str(SCRIPT)],
            "scaling": {"workers": workers, "resources_per_worker": amounts},
        }
        file = pathlib.Path(folder) / f"{prefix}-{number}.yaml"
        file.write_text(json.dumps(spec))
        begin = time.time()
        lines = cluster.rtrain("submit", "--follow", file)  # one waiting process, like torchrun
        ours.append(moment(lines, "") - begin)
    return ours, theirs


def moment(output, errors):
    """Returns the time of the first step, which the script printed."""
    match = re.search(r"first_step ([0-9.]+)", output)
    if match is None:
        raise RuntimeError(f"{SCRIPT.name} made no step: {(output + errors)[-2000:]}")
    return float(match[1])

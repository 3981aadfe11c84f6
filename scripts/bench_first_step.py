"""The time from a submission to the first optimizer step, and from a launch by torchrun, of the same script in alternating rounds:
for scripts/bench first-step on the CPU, and for scripts/gpu-check on GPUs."""

import json
import pathlib
import re
import subprocess
import time

from local_cluster import ROOT, free_port

SCRIPT = ROOT / "tests" / "bench" / "jobs" / "first_step.py"


def torchrun(python, workers, *arguments):
    """The command of torchrun on this machine."""
    return [python, "-m", "torch.distributed.run", "--nproc-per-node", workers, "--master-port", free_port(), *arguments]


def first_steps(cluster, folder, python, workers, rounds, gpus=0, prefix="step"):
    """(seconds of rtrain, seconds of torchrun) for each round, by that interpreter."""
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
        lines = cluster.rtrain("submit", "--follow", file)  # one process that waits, as torchrun is
        ours.append(moment(lines, "") - begin)
    return ours, theirs


def moment(output, errors):
    """When the first step was made, as the script printed it."""
    match = re.search(r"first_step ([0-9.]+)", output)
    if match is None:
        raise RuntimeError(f"{SCRIPT.name} made no step: {(output + errors)[-2000:]}")
    return float(match[1])

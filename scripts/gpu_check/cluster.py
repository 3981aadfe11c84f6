"""The cluster that checks use: real daemons on loopback, jobs of tests/gpu/jobs, and the facts that workers write into a
folder.
"""

import json
import os
import pathlib
import re
import sys
import time

from local_cluster import ROOT, LocalCluster, wait_for

from gpu_check.rows import Wrong

JOBS = ROOT / "tests" / "gpu" / "jobs"
IMPORTS = (ROOT / "runtime" / "python", ROOT / "carried", ROOT / "scripts", JOBS)
_PASSED = "PYTHONPATH,LD_LIBRARY_PATH,CUDA_*,NCCL_*,NVIDIA_*,TORCH_*,GPU_CHECK_*"
_ENDED = ("SUCCEEDED", "FAILED", "STOPPED")


def import_path():
    """Returns the PYTHONPATH of drivers and workers, with the package and the jobs of this tree first."""
    before = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return os.pathsep.join(dict.fromkeys([*map(str, IMPORTS), *before]))


class GpuCluster(LocalCluster):
    """`nodes` agents that offer the GPUs they find. visible: CUDA_VISIBLE_DEVICES of each agent, by its name. warm: whether
    they fork workers.
    """

    def __init__(self, folder, nodes=1, visible=None, warm=False):
        self.visible = visible or {}
        self.warm_flags = ("--warm",) if warm else ("--no-warm",)
        self.facts = pathlib.Path(folder).with_name(f"{pathlib.Path(folder).name}-facts")
        self.facts.mkdir(parents=True)
        os.environ["PYTHONPATH"] = import_path()
        super().__init__(folder, nodes=nodes, resources="CPU=16", pass_env=_PASSED)

    def start(self, name, *arguments):
        before = self.env
        if name in self.visible:
            self.env = {**before, "CUDA_VISIBLE_DEVICES": self.visible[name]}
        try:
            super().start(name, *arguments)
        finally:
            self.env = before

    def be_driver(self):
        """Makes this cluster the one that `rtrain` means in this process. By variables: a context file would need PyYAML."""
        token = self.json("token", "create", "--user", "gpu-check")["token"]
        ca = self.folder / "head" / "ca.crt"
        named = {"ADDRESS": self.head_address(), "TOKEN": token, "CA": str(ca), "CONFIG": "/nonexistent"}
        os.environ.update({f"RTRAIN_{name}": value for name, value in named.items()})

    def submit(self, name, program, *arguments, workers=1, gpus=1, env=None, scaling=None, **spec):
        """Starts a job of `workers` processes with `gpus` each. program: a file of tests/gpu/jobs, or a program's whole path."""
        command = [sys.executable, str(JOBS / program)] if str(program).endswith(".py") else [str(program)]
        amounts = {"CPU": 1, **({"GPU": gpus} if gpus else {})}
        job = {
            "version": 1,
            "name": name,
            "entrypoint": [*command, *map(str, arguments)],
            "working_dir": None,
            "env": {"PYTHONPATH": import_path(), "GPU_CHECK_FACTS": str(self.facts), **(env or {})},
            "scaling": {"workers": workers, "resources_per_worker": amounts, **(scaling or {})},
            **spec,
        }
        file = self.facts / f"{name}.yaml"
        file.write_text(json.dumps(job))
        self.rtrain("submit", file)

    def fact(self, run, what, rank=0, attempt=1, within=180):
        """Returns the facts about `what` that the rank has written. Raises Wrong, with the end of its log, if the run ends
        without them."""
        file = self.facts / f"{run}-a{attempt}-r{rank}-{what}.json"
        deadline = time.monotonic() + within
        while not file.exists():
            ended = self.json("describe", run)["state"] in _ENDED
            if (ended or time.monotonic() > deadline) and not file.exists():
                raise Wrong(f"rank {rank} of {run} never told its {what}: {self.last_words(run)}")
            time.sleep(0.05)
        return json.loads(file.read_text())

    def word(self, name):
        """Releases the workers that wait for `name`."""
        (self.facts / name).touch()

    def finished(self, run, within=300):
        """Returns the description of the run after it has succeeded; otherwise raises Wrong."""
        wait_for(f"the end of {run}", lambda: self.json("describe", run)["state"] in _ENDED, within)
        described = self.json("describe", run)
        if described["state"] != "SUCCEEDED":
            raise Wrong(f"{run} is {described['state']}: {described['reason']}: {self.last_words(run)}")
        return described

    def results(self, run, workers=1, attempt=1, within=300):
        """Returns the `result` facts of every rank of a run that must succeed."""
        self.finished(run, within)
        return [self.fact(run, "result", rank, attempt) for rank in range(workers)]

    def last_words(self, run):
        lines = self.run("logs", run, "--rank", "all", "--tail", "8").stdout.strip().splitlines()
        return " / ".join(lines[-8:]) or self.json("describe", run)["reason"]

    def metrics(self):
        """Samples of the head's /metrics: [(name, labels, value)]. Asks as the driver."""
        from rtrain._http import Head

        text = Head.current().content("/metrics").decode()
        samples = []
        for line in text.splitlines():
            match = re.match(r"(?:rtrain_)?(\w+)(?:\{(.*)\})? (\S+)$", line)
            if match and not line.startswith("#"):
                labels = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
                samples.append((match[1], labels, float(match[3])))
        return samples

    def assigned_uuids(self, run, rank=0, within=30):
        """Returns the UUIDs of the GPUs of that rank of a running run, as heartbeats name them."""
        run_id = self.json("describe", run)["run_id"]
        wanted = {"run_id": run_id, "rank": str(rank)}

        def named():
            events = [
                labels["gpu_uuid"]
                for name, labels, _ in self.metrics()
                if name == "gpu_allocation_info" and wanted.items() <= labels.items()
            ]
            return events if events and all(events) else None

        return wait_for(f"the heartbeat that names the GPUs of {run}", named, within)

"""Job specs that the system tests submit."""

import json
import pathlib

JOBS = pathlib.Path(__file__).resolve().parent / "jobs"


def write_job(folder, name, entrypoint, workers=1, **fields):
    """Writes a spec (as JSON, which is YAML) and returns its path."""
    scaling = {"workers": workers, **fields.pop("scaling", {})}
    spec = {"version": 1, "name": name, "entrypoint": entrypoint, "scaling": scaling, **fields}
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(json.dumps(spec))
    return path


def ranks_job(folder, name, steps, pause=0.0, workers=1, max_failures=0, before=None, **fields):
    """Writes a job of jobs/ranks.py: every rank writes a file into each of `steps` checkpoints, `pause` seconds apart.
    `before` is a bash script that ends in `exec "$@"`.
    """
    entrypoint = ["python", str(JOBS / "ranks.py"), str(steps), str(pause)]
    if before:
        entrypoint = ["bash", "-c", before, "bash", *entrypoint]
    return write_job(folder, name, entrypoint, workers, failure={"max_failures": max_failures, "backoff": "100ms..1s"}, **fields)

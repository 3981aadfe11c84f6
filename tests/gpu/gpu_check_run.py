"""Runs scripts/gpu-check as a person does, and reads its JSON."""

import json
import pathlib
import subprocess
import sys

from gpu_check.command_line import CPU_NOTE

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NEEDS_GPU = {
    ("fsdp", "FSDP, 1 worker"): "needs a GPU: torch's FullyShardedDataParallel does not train on the CPU",
    ("fsdp", "FSDP, 2 workers"): "needs a GPU: torch's FullyShardedDataParallel does not train on the CPU",
    ("devices", "a GPU divided by MIG"): "needs a GPU that is divided by MIG",
    ("warm", "torch.compile in a forked worker"): "needs a GPU: on the CPU torch.compile makes no kernel of Triton's",
    ("warm", "a module that looks for GPUs when it is imported"): "needs a GPU: without its driver a module finds none anywhere",
    ("transfer", "copy and computing overlap"): "needs a GPU: the CPU has no streams",
}


def run(*arguments, python=sys.executable, root=ROOT, **how):
    command = [str(python), str(root / "scripts" / "gpu-check"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=1_800, check=False, **how)


def verdicts(*arguments, **how):
    """Returns (exit code, {(group, row): row}, the whole answer) of a run with `-o json`."""
    done = run(*arguments, "-o", "json", **how)
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    rows = {(row["group"], row["name"]): row for row in answer["rows"]}
    assert len(rows) == len(answer["rows"]), "two rows have one name"
    return done.returncode, rows, answer


def checked(groups, folder):
    """Returns the rows of the groups on the CPU. Checks that none is FAILED, that only rows of NEEDS_GPU are skipped, and
    that `folder` is empty at the end.
    """
    code, rows, answer = verdicts("--cpu", "--checkpoint-gb", "0.02", "--dir", folder, *groups)
    wrong = {key: row["reason"] for key, row in rows.items() if row["verdict"] == "FAILED"}
    assert not wrong and code == 0, wrong
    skipped = {key: row["reason"] for key, row in rows.items() if row["verdict"] == "skipped"}
    assert skipped == {key: reason for key, reason in NEEDS_GPU.items() if key[0] in groups}
    assert {key[0] for key in rows} == set(groups) and all(row["seen"] for row in rows.values() if row["verdict"] == "ok")
    assert answer["mode"] == "cpu" and answer["machine"].startswith(CPU_NOTE)
    assert not list(folder.iterdir()), "files are left"
    return rows

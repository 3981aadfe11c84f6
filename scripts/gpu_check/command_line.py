"""Proves on this machine what needs a GPU, and prints one table: what was expected, what was seen, ok, FAILED or skipped."""

import argparse
import json
import os
import pathlib
import shutil
import signal
import sys
import tempfile

from local_cluster import ROOT

from gpu_check import bounded, machine, pack, rows, stand_in
from gpu_check.cluster import import_path
from gpu_check.groups import GROUPS, Options, command

NO_GPU, NOT_POSSIBLE = 3, 4
GROUP_SECONDS = 540
CPU_NOTE = "on the CPU: what these rows prove is the script, not the GPU"
_EPILOG = """exit code: 0 no row FAILED; 1 one did; 2 wrong arguments; 3 no GPU, nothing was checked; 4 PyTorch has no CUDA, or
the program is not there. A row that needs two GPUs or MIG is skipped without, and says so."""


class NoGpu(Exception):
    """There is no GPU. The text gives the evidence."""


def parsed(arguments):
    listed = "\n".join(f"  {name:11} {what}" for name, what in GROUPS.items())
    parser = argparse.ArgumentParser(
        prog="scripts/gpu-check",
        description=f"{__doc__}\n\ngroups (default: all):\n{listed}",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("groups", nargs="*", metavar="GROUP")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--pack", metavar="FILE.tar.gz", help="write what another machine needs for this, and do nothing else")
    parser.add_argument("--cpu", action="store_true", help="for developers: " + CPU_NOTE)
    parser.add_argument("--cpu-gpus", type=int, default=2, metavar="N", help="how many GPUs --cpu pretends (default 2)")
    parser.add_argument("--checkpoint-gb", type=float, default=10.0, help="size of the large checkpoint (default 10)")
    parser.add_argument(
        "--group-seconds", type=float, default=GROUP_SECONDS, help=f"longest time of a group (default {GROUP_SECONDS})"
    )
    parser.add_argument(
        "--dir",
        type=lambda text: pathlib.Path(text).absolute(),
        help="where files may lie meanwhile; needs 3.5 times the checkpoint",
    )
    parser.add_argument("--keep", action="store_true", help="leave those files, and the logs of the daemons")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.groups if name not in GROUPS]
    if unknown:
        parser.error(f"there is no group {unknown[0]!r}; there are: {', '.join(GROUPS)}")
    if not 1 <= given.cpu_gpus <= 8 or given.checkpoint_gb <= 0 or given.group_seconds <= 0:
        parser.error("--cpu-gpus is 1 to 8; --checkpoint-gb and --group-seconds are above 0")
    return given


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_group(group, given, work, env):
    """Returns the rows of one group, with another FAILED row if the group took too long or crashed."""
    file, log = work / f"{group}.rows", work / f"{group}.log"
    options = Options(str(work / group), str(file), given.cpu_gpus if given.cpu else 0, given.checkpoint_gb)
    code = bounded.run(command(group, options), env, log, given.group_seconds)
    results = rows.read(file)
    end = log.read_text(errors="replace").strip()
    if code is None:
        reason = f"took longer than {given.group_seconds:g} s"
    elif code != 0:
        reason = f"ended with {code}: {(end.splitlines() or ['no output'])[-1]}"
    elif not results:
        reason = "made no row"
    else:
        reason = ""
    if reason:
        results.append(rows.Row(group, "the group", "comes to its end", f"{len(results)} rows", rows.FAILED, reason))
    if any(row.verdict == rows.FAILED for row in results) and end:
        say(f"--- {group}, the end of its output:\n{end[-4000:]}\n---")
    if not given.keep:
        shutil.rmtree(work / group, ignore_errors=True)  # a later group needs the space
    return results


def prepared(given, work):
    """Returns (environment of the groups, line above the table). Raises NoGpu or Missing with the reason."""
    env = {**os.environ, "PYTHONPATH": import_path(), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    if given.cpu:
        program = machine.require_program()
        env.update(stand_in.make(work / "driver", given.cpu_gpus, ROOT))
        return env, f"{CPU_NOTE}. {machine.line([], machine.torch_facts(), program)}"
    gpus, reason = machine.gpus_or_reason()
    if not gpus:
        raise NoGpu(reason)
    facts = machine.torch_facts()
    machine.require_cuda(facts)
    return env, machine.line(gpus, facts, machine.require_program())


def check(given, work):
    env, line = prepared(given, work)
    say(line)
    results = []
    for group in given.groups or GROUPS:
        say(f"{group}: {GROUPS[group]}")
        for row in run_group(group, given, work, env):
            say(f"  {row.name}: {row.shown_verdict()}")
            results.append(row)
    counts = rows.counts(results)
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    if given.output == "json":
        mode = "cpu" if given.cpu else "gpu"
        answer = {"mode": mode, "machine": line, "counts": counts, "rows": [vars(row) for row in results]}
        print(json.dumps(answer, indent=1))
    else:
        print(f"{line}\n\n{rows.table(results)}\n\n{summary}")
    return 1 if counts[rows.FAILED] else 0


def refused(given, code, reason):
    if given.output == "json":
        print(json.dumps({"mode": "none", "reason": reason, "rows": []}))
    else:
        print(reason)
    return code


def _interrupted(_signal, _frame):
    raise KeyboardInterrupt  # runs the handlers that end processes and remove files


def main(arguments):
    given = parsed(arguments)
    if given.pack:
        return pack.pack(pathlib.Path(given.pack))
    bounded.adopt_orphans()
    signal.signal(signal.SIGTERM, _interrupted)
    work = pathlib.Path(tempfile.mkdtemp(prefix="rtrain-gpu-check-", dir=given.dir))
    try:
        return check(given, work)
    except NoGpu as error:
        return refused(given, NO_GPU, f"no GPU: {error}; nothing was checked")
    except (machine.Missing, stand_in.CannotStandIn) as error:
        return refused(given, NOT_POSSIBLE, f"{error}; nothing was checked")
    finally:
        if given.keep:
            say(f"files and logs are in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)

"""Defaults and limits that pages state, and the place of each in the sources. A page and its source change together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from page_commands import run
from page_jobs import schema
from page_text import ROOT

# Page, the words in it, file of the sources, what stands there.
STATED = [
    ("docs/cli.md", "a node's token works once (`--uses N`) and for one hour", "docs/http-api.md", "an hour"),
    ("docs/cli.md", "a person's for 90 days", "cmd/verbs/token_verbs.cpp", "person_token_ms = 90LL * 86'400'000"),
    ("docs/cli.md", "for `scaling.grow_after` (30 s)", "storage/job_spec/job.hpp", "grow_after_ms = 30'000"),
    ("docs/reliability.md", "lost after `--node-timeout`, 10 s", "daemon/head/events/leases.hpp", "node_timeout_ms = 10'000"),
    ("docs/reliability.md", "after 50 ms, then with a pause that doubles up to 10 s", "cmd/daemons/supervisor.cpp",
     "pause_first_ms = 50, pause_most_ms = 10'000"),
    ("docs/reliability.md", "if the last one committed a checkpoint or ran for 30 s", "scheduler/model/limits.hpp",
     "progress_after{30'000}"),
    ("docs/queues.md", "in a retry backoff of at most 10 s keeps its place", "scheduler/model/limits.hpp", "backoff_keeps_place{10'000}"),
    ("docs/queues.md", "reserves seats after half an hour", "scheduler/model/limits.hpp", "starves_after{1'800'000}"),
    ("docs/autoscaling.md", "the first 64 waiting runs", "scheduler/model/limits.hpp", "autoscaled_runs = 64"),
    ("docs/workers.md", "with 2GiB.", "daemon/agent/base/limits.hpp", "templates_memory = std::int64_t{2} << 30"),
    ("docs/workers.md", "at most 8GiB, and are at most 8;", "daemon/agent/base/limits.hpp", "templates_memory_most = std::int64_t{8} << 30"),
    ("docs/workers.md", "at most a tenth of the memory", "daemon/agent/base/limits.hpp", "templates_part = 10"),
    ("docs/cli.md", "`--disk-reserve SIZE` (512MiB)", "daemon/agent/base/limits.hpp", "disk_reserve = std::int64_t{512} << 20"),
    ("docs/workers.md", "at most 8GiB, and are at most 8;", "daemon/agent/machine/templates.hpp", "templates_max = 8"),
    ("docs/workers.md", "The archive has 500 MiB and 20,000 files at most", "runtime/python/rtrain/train/_archive/_package.py",
     "_FILES_MAX, _BYTES_MAX = 20_000, 500 << 20"),
    ("docs/workers.md", "wait for a head that is away, two minutes at most", "runtime/python/rtrain/train/_values/_names.py",
     "HEAD_AWAY_S = 120.0"),
    ("docs/data.md", "pieces of at most 4 MiB or 65,536 rows", "runtime/python/rtrain/data/_source.py",
     "PIECE_BYTES = 4 << 20"),
    ("docs/data.md", "`window_bytes` (128 MiB", "runtime/python/rtrain/data/_orders.py", "WINDOW_BYTES = 128 << 20"),
    ("docs/tune.md", "`max_concurrent_trials` (64 when left out)", "runtime/python/rtrain/tune/_tuner.py", "_LIVE = 64"),
    ("docs/troubleshooting.md", "The warning comes after 30 s", "daemon/agent/machine/coordinator.cpp", "first_warning_ms = 30'000"),
    ("docs/troubleshooting.md", "20000-29999 for rendezvous", "daemon/agent/hardware/ports.hpp", "first = 20'000, last = 29'999"),
    ("docs/troubleshooting.md", "7434 between agents", "cmd/daemons/node_entry.hpp", "peer_port = 7434"),
    ("docs/dashboard.md", "12 hours after the last use", "daemon/head/access/browser_sessions.hpp", "session_idle_most_ms = 12LL * 3'600'000"),
    ("docs/http-api.md", "`limit` is 1 to 1000, 100 when left out", "daemon/head/requests/pages_json.hpp", "limit = 100"),
    ("docs/http-api.md", "at most 20,000 runs that have not ended", "daemon/head/base/limits.hpp", "user_live_runs = 20'000"),
    ("docs/http-api.md", "2,000 times at once, then 100 times a second", "daemon/head/access/change_rate.hpp",
     "burst = 2'000, each_second = 100"),
    ("docs/job-spec.md", "A shorter wait than 100 ms is 100 ms", "scheduler/model/limits.hpp", "backoff_least{100}"),
    ("docs/job-spec.md", "ends with 100,000 failures", "scheduler/model/limits.hpp", "failures_most = 100'000"),
    ("docs/security.md", "the newest report of each run | 512 MiB", "daemon/head/base/limits.hpp", "user_memory = 512 * MiB"),
    ("docs/security.md", "audit rows | 4 GiB, a quarter", "daemon/head/base/limits.hpp", "user_database = 4 * GiB"),
    ("docs/security.md", "secrets | 64 GiB, a quarter", "daemon/head/base/limits.hpp", "user_files = 64 * GiB"),
    ("docs/security.md", "the last 256 MiB (an eighth of a small disk)", "daemon/head/base/limits.hpp",
     "disk_reserve = 256 * MiB, disk_reserve_part = 8"),
    ("docs/security.md", "A file of 32 MiB (a sixteenth)", "daemon/head/base/limits.hpp",
     "reserve_file = 32 * MiB, reserve_file_part = 16"),
    ("docs/install.md", "started again after 200 ms", "configs/systemd/rtrain-head.service", "RestartSec=200ms"),
    ("docs/where-it-runs.md", "500 MiB at most", "runtime/python/rtrain/train/_archive/_package.py", "500 << 20"),
]  # fmt: skip
# Rows of the table of limits in docs/job-spec.md: number, its words, the fields that it bounds.
LIMITS = [
    ("2,048", "`nodes`, `exclude_nodes`", ["scaling.nodes", "scaling.exclude_nodes", "scaling.worker_selectors"]),
    ("4,096", "words of an `entrypoint`", ["entrypoint"]),
    ("1,024", "variables of `env`", ["env"]),
    ("256", "`secrets`, `labels`, `after`, `preload`", ["secrets", "labels", "after", "python.preload"]),
    ("64", "amounts of `resources_per_worker`", ["scaling.resources_per_worker", "scaling.trainer_resources", "stop"]),
]
DURATIONS = {"s": 1_000, "m": 60_000, "h": 3_600_000}


def words(text: str) -> str:
    return " ".join(text.split())


def wrong_statements(stated: list[tuple[str, str, str, str]]) -> Iterator[str]:
    for page, sentence, file, text in stated:
        if words(sentence).lower() not in words((ROOT / page).read_text()).lower():
            yield f"{page} does not say {sentence!r} any more: correct the list in {__file__}"
        if text.lower() not in words((ROOT / file).read_text()).lower():
            yield f"{page} says {sentence!r}, and {file} does not have {text!r} any more"


def bound_of(dotted: str) -> int | None:
    field = schema()
    for part in dotted.split("."):
        field = field["properties"][part]
    return next((field[name] for name in ("maxItems", "maxProperties") if name in field), None)


def wrong_limits(page: str) -> Iterator[str]:
    for number, text, names in LIMITS:
        if f"| {number} | " not in page or text not in page:
            yield f"docs/job-spec.md has no row of {number} {text}"
        for dotted in names:
            if bound_of(dotted) != int(number.replace(",", "")):
                yield f"docs/job-spec.md: {dotted} is bounded by {bound_of(dotted)}, not by {number}"


def wrong_autoscaling(page: str) -> Iterator[str]:
    """Compares the table of fields with the defaults of the sources."""
    source = (ROOT / "scheduler" / "autoscale" / "autoscale.hpp").read_text()
    for name in ("idle", "cooldown", "timeout"):
        row = re.search(rf"^\| `{name}` \|.*\| `(\d+)([smh])` \|$", page, re.M)
        default = re.search(rf"\b{name}\{{([\d']+)\}}", source)
        if row is None or default is None or int(row[1]) * DURATIONS[row[2]] != int(default[1].replace("'", "")):
            yield f"docs/autoscaling.md: the default of {name} is not that of {default and default[1]} ms"


def wrong_slurm(page: str) -> Iterator[str]:
    """Compares the table of flags with the program's help: each flag is in both, with one default."""
    shown = dict(re.findall(r"^\| `(--[\w-]+)[ =`].*?\| (.*) \|$", page, re.M))
    helped = dict(
        re.findall(r"^ +(--[\w-]+) (.*)$", run("slurm", "submit", "--help").stdout.partition("Flags of every")[0], re.M)
    )
    yield from (f"docs/slurm.md: {flag} is only in one of page and help" for flag in sorted(shown.keys() ^ helped.keys()))
    for flag, default in (("--nodes", "1"), ("--output-file", "slurm-%j.out")):
        if default not in shown[flag] or f"default {default}" not in helped[flag]:
            yield f"docs/slurm.md: the default of {flag} is not {default}"

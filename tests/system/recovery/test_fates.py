"""Tests that kills and resizes on real daemons change no global batch. Seeds give RTRAIN_FATES schedules, by default 2.

RTRAIN_FATE names the first seed.
"""

import importlib.util
import os
import random

import fates
import pyarrow
import pytest
from jobs_on_disk import JOBS
from local_cluster import LocalCluster
from pyarrow import parquet

SEEDS = range(int(os.environ.get("RTRAIN_FATE") or 0), int(os.environ.get("RTRAIN_FATE") or 0) + fates.count())


@pytest.fixture
def cluster(tmp_path):
    """Starts new daemons for each schedule, since a head avoids a node on which ranks of several runs died."""
    made = LocalCluster(tmp_path / "c", nodes=2, resources="CPU=4")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Writes documents of up to 30 tokens into two folders of Parquet files."""
    folder, numbers = tmp_path_factory.mktemp("rows"), random.Random(1)
    for name, documents in (("web", 480), ("code", 160)):
        (folder / name).mkdir()
        lists = [[numbers.randint(1, 500) for _ in range(numbers.randint(0, 30))] for _ in range(documents)]
        for part in range(4):
            own = slice(part * documents // 4, (part + 1) * documents // 4)
            table = pyarrow.table({"id": range(own.start, own.stop), "input_ids": lists[own]})
            parquet.write_table(table, folder / name / f"{part}.parquet", row_group_size=30)
    return folder


def job(name):
    spec = importlib.util.spec_from_file_location(name, JOBS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def undisturbed(folder, seed):
    """Returns the rows of each step of an undisturbed run, computed in this process without a cluster."""
    made = job("fated_rows")
    shard = made.plan(folder).rtrain_share_of_run(0, 1, seed, equal=True, streams=8)
    return [
        (epoch, made.written(batch)) for epoch in range(made.EPOCHS) for batch in shard.iter_batches(batch_size=fates.TOGETHER)
    ]


def quiet(cluster, folder):
    """Returns the rows of each step of an undisturbed run on the cluster."""
    return fates.play(cluster, "fated_loader.py", folder, folder.name, {"seed": -1, "first": 1, "saves": 5, "events": []})


@pytest.fixture(scope="module")
def of_plain_loader(tmp_path_factory):
    made = LocalCluster(tmp_path_factory.mktemp("quiet") / "c", nodes=1, resources="CPU=4")
    try:
        return quiet(made, tmp_path_factory.mktemp("loader") / "quiet")
    finally:
        made.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_schedule_changes_a_batch_of_a_plain_loader(cluster, of_plain_loader, tmp_path, seed):
    schedule = fates.draw(seed, ("kill", "loader", "resize"))
    print(f"schedule {schedule}")
    delivered = fates.play(cluster, "fated_loader.py", tmp_path / "run", f"loader-{seed}", schedule)
    assert len(delivered) > fates.STEPS
    assert [(epoch, sorted(batch)) for epoch, batch in delivered] == [
        (epoch, sorted(batch)) for epoch, batch in of_plain_loader
    ], schedule


@pytest.mark.parametrize("seed", SEEDS)
def test_no_schedule_changes_a_batch_of_mixed_packed_rows(cluster, rows, seed):
    schedule = fates.draw(seed, ("kill", "resize"))
    print(f"schedule {schedule}")
    folder = rows / f"run-{seed}"
    delivered = fates.play(cluster, "fated_rows.py", folder, f"rows-{seed}", schedule)
    expected = undisturbed(rows, int((folder / "seed").read_text()))
    assert len(expected) > fates.STEPS and len({epoch for epoch, _ in expected}) == 2
    assert len(delivered) == len(expected), schedule
    for (epoch, batch), (wanted_epoch, wanted) in zip(delivered, expected, strict=True):
        if len(wanted) == fates.TOGETHER:
            assert (epoch, batch) == (wanted_epoch, wanted), schedule
        else:  # the end of an epoch leaves out fewer rows than there are ranks
            assert len(batch) > len(wanted) - 8 and all(row in wanted for row in batch), schedule

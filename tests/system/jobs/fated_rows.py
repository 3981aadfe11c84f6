"""Trains by fit() on Parquet, map, filter, pack and mix, under a schedule of kills and resizes. usage: fated_rows.py FOLDER NAME"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import rtrain.data

EPOCHS = 2


def noisy(row):
    noise = rtrain.data.generator().integers(0, 1000, len(row["input_ids"]))
    return {"id": row["id"], "input_ids": [1000 * token + int(more) for token, more in zip(row["input_ids"], noise, strict=True)]}


def kept(row):
    return row["id"] % 5 != 0


def plan(folder):
    """Returns the dataset of the Parquet files in `folder`."""
    web, code = (rtrain.data.read_parquet(f"{folder}/{name}") for name in ("web", "code"))
    web = web.filter(kept).map(noisy).random_shuffle(seed=3, window_bytes=1).pack(16)
    code = code.map(noisy).pack(16, split_documents=False)
    return rtrain.data.mix(
        {web: 0.6, code: 0.4}, seed=5, stopping_strategy="all_exhausted", schedule={300: {web: 0.3, code: 0.7}}
    )


def written(batch):
    return [[ids.tolist(), documents.tolist()] for ids, documents in zip(batch["input_ids"], batch["document_ids"], strict=True)]


def loop(config):
    import sys  # noqa: PLC0415

    sys.path.insert(0, config["jobs"])
    from fated import Fate  # noqa: PLC0415
    from rtrain import train  # noqa: PLC0415

    fate = Fate(config["folder"])
    saved = fate.saved()
    epoch, step = (saved["epoch"], saved["step"]) if saved else (0, 0)
    shard = train.get_dataset_shard("train", state_dict=saved and saved["data"])
    while epoch < EPOCHS:
        for batch in shard.iter_batches(global_batch_size=fate.together, prefetch_batches=2):
            step += 1
            if step == 1 and fate.rank == 0:
                (fate.folder / "seed").write_text(str(shard.state_dict()["seed"]))
            fate.step(epoch, step, written(batch), shard.state_dict)
        epoch += 1


if __name__ == "__main__":
    from rtrain.train import DataConfig, DataParallelTrainer, FailureConfig, RunConfig, ScalingConfig

    folder, name = sys.argv[1:]
    schedule = __import__("json").loads((pathlib.Path(folder) / "schedule.json").read_text())
    DataParallelTrainer(
        loop,
        train_loop_config={"folder": folder, "jobs": str(pathlib.Path(__file__).resolve().parent)},
        datasets={"train": plan(pathlib.Path(folder).parent)},
        dataset_config=DataConfig(streams=8),
        scaling_config=ScalingConfig(num_workers=schedule["first"]),
        run_config=RunConfig(name=name, failure_config=FailureConfig(max_failures=8)),
    ).fit()

"""Trains by fit() on a plain DataLoader, under a schedule of kills and resizes. usage: fated_loader.py FOLDER NAME

Each item contains random numbers, so the batches show whether a resumed run draws the same numbers as an undisturbed one.
"""

import json
import pathlib
import sys

ROWS, EPOCHS = 360, 3  # every possible number of ranks divides the rows


def loop(config):
    import sys  # noqa: PLC0415

    sys.path.insert(0, config["jobs"])
    import psutil  # noqa: PLC0415
    import rtrain.data  # noqa: PLC0415
    from fated import Fate  # noqa: PLC0415
    from rtrain.train.torch import enable_reproducibility, prepare_data_loader  # noqa: PLC0415
    from torch.utils.data import DataLoader, Dataset  # noqa: PLC0415

    class Rows(Dataset):
        def __len__(self):
            return config["rows"]

        def __getitem__(self, index):
            return index, int(rtrain.data.generator().integers(1_000_000))

    fate = Fate(config["folder"])
    enable_reproducibility(seed=4)
    processes = fate.schedule["seed"] % 2
    ahead = {"prefetch_factor": 4, "persistent_workers": True} if processes else {}
    loader = prepare_data_loader(DataLoader(Rows(), fate.together // fate.ranks, shuffle=True, num_workers=processes, **ahead))
    saved = fate.saved()
    epoch, step = (saved["epoch"], saved["step"]) if saved else (0, 0)
    if saved:
        loader.load_state_dict(saved["data"])

    def loaders():
        return [child.pid for child in psutil.Process().children() if "python" in child.name()]

    while epoch < config["epochs"]:
        for indices, noise in loader:
            step += 1
            rows = list(zip(indices.tolist(), noise.tolist(), strict=True))
            fate.step(epoch, step, rows, loader.state_dict, loaders)
        epoch += 1


if __name__ == "__main__":
    from rtrain.train import FailureConfig, RunConfig, ScalingConfig
    from rtrain.train.torch import TorchTrainer

    folder, name = sys.argv[1:]
    schedule = json.loads((pathlib.Path(folder) / "schedule.json").read_text())
    TorchTrainer(
        loop,
        train_loop_config={
            "folder": folder,
            "jobs": str(pathlib.Path(__file__).resolve().parent),
            "rows": ROWS,
            "epochs": EPOCHS,
        },
        scaling_config=ScalingConfig(num_workers=schedule["first"]),
        run_config=RunConfig(name=name, failure_config=FailureConfig(max_failures=8)),
    ).fit()

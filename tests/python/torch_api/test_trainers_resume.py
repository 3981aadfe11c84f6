"""Trainers of Lightning and Transformers go on in mid-epoch: the rows of the undisturbed run, and none is fetched twice."""

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from rtrain.train import torch as rt
from torch.utils.data import DataLoader, Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

ROWS, BATCH, STOP = 24, 4, 8  # six steps an epoch; the checkpoint is in the second one


class Rows(Dataset):
    def __init__(self):
        self.fetched = []

    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        self.fetched.append(index)
        return {"x": torch.tensor([float(index)]), "labels": torch.zeros(1)}


class Lit(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(1, 1), []

    def training_step(self, batch, _number):
        self.seen.append(batch["x"].flatten().int().tolist())
        return self.layer(batch["x"]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)


class Saves(Callback):
    """Saves a checkpoint within an epoch."""

    def __init__(self, path):
        self.path = path

    def on_train_batch_end(self, trainer, _module, _outputs, _batch, _number):
        if trainer.global_step == STOP:
            trainer.save_checkpoint(self.path)


def lit(checkpoint=None, callbacks=()):
    module, data = Lit(), Rows()
    loader = rt.prepare_data_loader(DataLoader(data, BATCH, shuffle=True))
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(max_epochs=3, accelerator="cpu", devices=1, callbacks=list(callbacks), **quiet)
    trainer.fit(module, loader, ckpt_path=checkpoint)
    return module.seen, data.fetched


def test_lightning_saves_and_loads_the_place_of_a_prepared_loader(tmp_path):
    path = str(tmp_path / "middle.ckpt")
    undisturbed, _ = lit(callbacks=[Saves(path)])
    resumed, fetched = lit(path)
    assert len(undisturbed) == 18 and resumed == undisturbed[STOP:]
    assert len(fetched) == ROWS * 3 - STOP * BATCH


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = torch.nn.Linear(1, 1), []

    def forward(self, x, labels=None):
        self.seen.append(x.flatten().int().tolist())
        return {"loss": self.layer(x).square().mean()}


class StopsAt(TrainerCallback):
    def on_step_end(self, _arguments, state, control, **_more):
        control.should_save = state.global_step == STOP


def transformer(folder, resume):
    model, data = Plain(), Rows()
    arguments = TrainingArguments(
        output_dir=str(folder), num_train_epochs=3, per_device_train_batch_size=BATCH, save_strategy="no", report_to=[],
        disable_tqdm=True, use_cpu=True, seed=3, dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=data, callbacks=[StopsAt()])
    trainer.train(resume_from_checkpoint=resume)
    return model.seen, data.fetched


@pytest.mark.filterwarnings("ignore")
def test_transformers_skips_in_the_sampler_and_fetches_no_row_again(tmp_path):
    undisturbed, _ = transformer(tmp_path, None)
    resumed, fetched = transformer(tmp_path, str(tmp_path / f"checkpoint-{STOP}"))
    assert len(undisturbed) == 18 and resumed == undisturbed[STOP:]
    assert len(fetched) == ROWS * 3 - STOP * BATCH

"""`TransformersTrainer`'s loop in both of its forms, and the callback, without a cluster. A fake session records
reports.
"""

import contextlib
import pathlib
import tempfile

import pytest
import torch
from rtrain.train import Checkpoint, _session
from rtrain.train._values import _shares
from rtrain.train.huggingface import _prepare
from rtrain.train.huggingface._loop import TransformersLoop
from rtrain.train.huggingface.transformers import RayTrainReportCallback, RTrainReportCallback, prepare_trainer
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

CONFIG = BertConfig(
    vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, max_position_embeddings=4
)


class Sentences(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return {"input_ids": torch.tensor([index % 8, 1, 2, 3]), "labels": index % 2}


class Stream:
    """A stand-in for a dataset's shard, with batches of the requested size."""

    def iter_torch_batches(self, *, batch_size):
        for _ in range(3):
            yield {"input_ids": torch.ones(batch_size, 4, dtype=torch.long), "labels": torch.ones(batch_size, dtype=torch.long)}


class KeptReports:
    """A session of one rank that records the reports and the newest checkpoint."""

    facts = _session.Facts()

    def __init__(self, folder):
        self.folder, self.metrics, self.files, self.checkpoint = folder, [], [], None

    def report(self, call):
        self.metrics.append(call.metrics)
        if call.directory:
            here = pathlib.Path(call.directory)
            self.files.append(sorted(str(path.relative_to(here)) for path in here.rglob("*") if path.is_file()))
            self.checkpoint = Checkpoint(call.directory)

    def get_checkpoint(self):
        return self.checkpoint

    def dataset_shard(self, name):
        if name == "train":
            return Sentences()
        raise KeyError(name)

    @contextlib.contextmanager
    def checkpoint_dir(self):
        yield tempfile.mkdtemp(dir=self.folder)


@pytest.fixture
def kept(tmp_path):
    with _session.use(KeptReports(tmp_path)) as session:
        yield session


def trainer(folder, data=None, **options):
    given = {"num_train_epochs": 1, "save_strategy": "epoch", **options}
    arguments = TrainingArguments(
        output_dir=str(folder / "out"), per_device_train_batch_size=4, logging_strategy="epoch", report_to=[],
        use_cpu=True, disable_tqdm=True, dataloader_pin_memory=False, **given,
    )  # fmt: skip
    return Trainer(BertForSequenceClassification(CONFIG), arguments, train_dataset=data or Sentences())


def test_a_loop_that_trains_gets_the_callback_and_its_config(kept, tmp_path):
    seen = []

    def loop(config):
        seen.append(config)
        trainer(tmp_path).train()

    assert TransformersLoop(loop, makes_trainer=False)({"lr": 1}) is None
    assert (
        seen == [{"lr": 1}] and len(kept.metrics) == 1 and kept.metrics[0]["epoch"] == 1 and "train_loss" not in kept.metrics[0]
    )
    assert "checkpoint/model.safetensors" in kept.files[0] and "checkpoint/rng_state.pth" in kept.files[0]
    assert Trainer.train.__name__ == "train" and not hasattr(Trainer.train, "__wrapped__")  # put back


def test_a_callback_of_the_users_own_is_not_doubled_and_a_training_without_saves_reports_once(kept, tmp_path):
    def loop():
        made = trainer(tmp_path, save_strategy="no")
        made.add_callback(RayTrainReportCallback())
        made.train()

    TransformersLoop(loop, makes_trainer=False)({})
    assert RayTrainReportCallback is RTrainReportCallback
    assert len(kept.metrics) == 1 and kept.files == [] and "train_loss" in kept.metrics[0]


def test_a_trainer_that_would_train_alone_is_refused(kept, tmp_path, monkeypatch):
    made = trainer(tmp_path)
    made.add_callback(RTrainReportCallback())
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match=r"sees 1 process.*use_cpu=True"):
        made.train()


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6), reason="Transformers resumes with PyTorch 2.6 or newer"
)
def test_the_older_init_function_gives_a_trainer_that_is_trained_and_resumed(kept, tmp_path):
    def init(train_dataset, eval_dataset=None, epochs=1):
        assert eval_dataset is None
        return trainer(tmp_path, train_dataset, num_train_epochs=epochs)

    loop = TransformersLoop(init, makes_trainer=False)
    loop({"epochs": 1})
    loop({"epochs": 2})
    assert [metrics["epoch"] for metrics in kept.metrics] == [1, 2]


def test_a_rank_s_share_is_not_divided_again_and_is_padded_to_equal_length(kept, tmp_path, monkeypatch):
    share = _shares.split(Sentences(), _session.Facts(world_size=3, world_rank=2))
    made = prepare_trainer(trainer(tmp_path, share))
    assert [len(batch["labels"]) for batch in made.get_train_dataloader()] == [2]
    # The other ranks have three of the eight items.
    monkeypatch.setattr(_prepare, "_longest", lambda length: length + 1)
    assert [len(batch["labels"]) for batch in made.get_train_dataloader()] == [3]
    items = [Sentences()[index] for index in range(8)]
    stream = prepare_trainer(trainer(tmp_path, _shares.EveryNth(items, 0, 2), max_steps=1))
    assert [len(batch["labels"]) for batch in stream.get_train_dataloader()] == [4]


def test_a_share_of_rtrain_data_trains_a_trainer(kept, tmp_path):
    data = pytest.importorskip("rtrain.data", exc_type=ImportError)
    rows = data.from_items([{"input_ids": [one % 8, 1, 2, 3], "labels": one % 2} for one in range(32)]).random_shuffle()
    share = rows.rtrain_share_of_run(1, 2, 3, equal=True)
    made = prepare_trainer(trainer(tmp_path, share, max_steps=6))
    assert [batch["input_ids"].shape for batch in made.get_train_dataloader()] == [(4, 4)] * 4
    assert made.train().global_step == 6 and share.state_dict()["epoch"] == 2  # the second half of an epoch was trained


def test_a_stream_of_batches_is_read_as_it_is(kept, tmp_path):
    made = prepare_trainer(trainer(tmp_path, Stream(), max_steps=5))
    sizes = [len(batch["labels"]) for batch in made.get_train_dataloader()]
    assert sizes == [4, 4, 4]
    assert made.train().global_step == 5

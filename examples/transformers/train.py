"""A small text classifier of Hugging Face Transformers on two workers; resumes from the last save.

Nothing is downloaded: the model is built from a configuration and the sentences are random. The class of a sentence of
twelve words says whether most of them are in the first or the second half of the vocabulary.

python train.py [--workers 2] [--epochs 4] [--storage DIR]
"""

import argparse
import os
import pathlib
from typing import Any

import rtrain.train
import torch
from rtrain.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from rtrain.train.huggingface import TransformersTrainer
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

WORDS, LENGTH = 64, 12


class Sentences(Dataset[dict[str, torch.Tensor]]):
    def __init__(self, count: int, seed: int) -> None:
        self.words = torch.randint(WORDS, (count, LENGTH), generator=torch.Generator().manual_seed(seed))
        self.labels = (self.words >= WORDS // 2).sum(1).gt(LENGTH // 2).long()

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def model() -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=LENGTH, id2label={0: "first half", 1: "second half"}, hidden_dropout_prob=0.0,
    )  # fmt: skip
    return BertForSequenceClassification(config)


def accuracy(prediction: Any) -> dict[str, float]:
    return {"accuracy": (prediction.predictions.argmax(1) == prediction.label_ids).mean()}


def train_loop(config: dict[str, Any]) -> None:
    """Runs on every worker. TransformersTrainer sees to it that each save of the Trainer is reported."""
    arguments = TrainingArguments(
        output_dir="trainer", num_train_epochs=config["epochs"], per_device_train_batch_size=16, learning_rate=5e-3,
        eval_strategy="epoch", save_strategy="epoch", logging_strategy="epoch", report_to=[], disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(), dataloader_pin_memory=False,
    )  # fmt: skip
    trainer = Trainer(
        model(), arguments, train_dataset=Sentences(512, 1), eval_dataset=Sentences(128, 2), compute_metrics=accuracy
    )
    checkpoint = rtrain.train.get_checkpoint()
    if checkpoint is None:
        trainer.train()
        return
    with checkpoint.as_directory() as directory:
        trainer.train(resume_from_checkpoint=os.path.join(directory, "checkpoint"))


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--epochs", type=int, default=4)
    options.add_argument("--storage", type=lambda text: str(pathlib.Path(text).absolute()), default=None)
    given = options.parse_args()
    trainer = TransformersTrainer(
        train_loop,
        train_loop_config={"epochs": given.epochs},
        scaling_config=ScalingConfig(num_workers=given.workers, use_gpu=torch.cuda.is_available()),
        run_config=RunConfig(
            name="transformers",
            storage_path=given.storage,
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=3, checkpoint_score_attribute="eval_accuracy"),
        ),
    )
    metrics = trainer.fit().metrics or {}
    print(f"accuracy {metrics['eval_accuracy']:.3f} after epoch {metrics['epoch']:.0f}")


if __name__ == "__main__":
    main()

"""Handwritten digits with TensorFlow's MultiWorkerMirroredStrategy on two workers.

Runs under `rtrain submit job.yaml` with `backend: {name: tensorflow}`, which sets TF_CONFIG in every worker. The loop is written
out: `fit` of Keras 3 does not train on several workers.
"""

import os
from typing import Any

import numpy as np
import rtrain.train
import tensorflow as tf
from sklearn.datasets import load_digits

EPOCHS = int(os.environ.get("EPOCHS", "5"))
BATCH, RATE = 64, 0.1  # the global batch size, and the learning rate


class Network(tf.Module):
    """Two layers. The update of a weight is averaged over all workers."""

    def __init__(self) -> None:
        super().__init__()
        draw = tf.random.stateless_normal
        self.first = self._weight(draw((64, 64), (1, 2)) / 8)
        self.second = self._weight(draw((64, 10), (3, 4)) / 8)
        self.shift = self._weight(tf.zeros(10))

    @staticmethod
    def _weight(start: Any) -> Any:
        return tf.Variable(start, aggregation=tf.VariableAggregation.MEAN)

    def __call__(self, pixels: Any) -> Any:
        return tf.nn.relu(pixels @ self.first) @ self.second + self.shift


def main() -> None:
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # reads TF_CONFIG, so it must be the first call of TensorFlow
    pixels, labels = load_digits(return_X_y=True)
    data = tf.data.Dataset.from_tensor_slices((np.asarray(pixels / 16, "float32"), np.asarray(labels)))
    data = strategy.experimental_distribute_dataset(data.shuffle(2000, seed=0).batch(BATCH, drop_remainder=True))
    with strategy.scope():
        model = Network()
    weights = model.trainable_variables

    def learn(images: Any, digits: Any) -> tuple[Any, Any]:
        tape: Any
        with tf.GradientTape() as tape:
            predictions = model(images)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(digits, predictions))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(RATE * gradient)
        return loss, tf.reduce_mean(tf.cast(tf.argmax(predictions, 1) == digits, tf.float32))

    @tf.function
    def step(images: Any, digits: Any) -> list[Any]:
        seen = strategy.run(learn, args=(images, digits))
        return [strategy.reduce(tf.distribute.ReduceOp.MEAN, metric, axis=None) for metric in seen]

    start = 0
    checkpoint = rtrain.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory, np.load(f"{directory}/weights.npz") as kept:
            for weight, name in zip(weights, kept.files, strict=True):
                weight.assign(kept[name])
        start = checkpoint.metrics["epoch"] + 1
    first = rtrain.train.get_context().get_world_rank() == 0
    for epoch in range(start, EPOCHS):
        loss, accuracy = (float(mean) for mean in np.mean([step(*batch) for batch in data], axis=0))
        metrics = {"epoch": epoch, "loss": loss, "accuracy": accuracy}
        with rtrain.train.checkpoint_dir() as directory:
            if first:
                np.savez(f"{directory}/weights.npz", *[weight.numpy() for weight in weights])
                print(metrics, flush=True)
            rtrain.train.report(metrics, checkpoint=directory if first else None)


if __name__ == "__main__":
    main()

"""Handwritten digits with TensorFlow's MultiWorkerMirroredStrategy on two workers.

Runs under `rtrain submit job.yaml` with `backend: {name: tensorflow}`, which sets TF_CONFIG in every worker.
"""

import os

import rtrain.train
import tensorflow as tf
from sklearn.datasets import load_digits

EPOCHS = int(os.environ.get("EPOCHS", "5"))


class Report(tf.keras.callbacks.Callback):
    """A report each epoch, with the weights from rank 0."""

    def on_epoch_end(self, epoch, logs=None):
        metrics = {"epoch": epoch, **(logs or {})}
        with rtrain.train.checkpoint_dir() as directory:
            self.model.save_weights(f"{directory}/model.weights.h5")
            first = rtrain.train.get_context().get_world_rank() == 0
            rtrain.train.report(metrics, checkpoint=directory if first else None)


def main():
    strategy = tf.distribute.MultiWorkerMirroredStrategy()  # before anything else of TensorFlow: it reads TF_CONFIG
    pixels, labels = load_digits(return_X_y=True)
    data = tf.data.Dataset.from_tensor_slices(((pixels / 16).astype("float32"), labels)).shuffle(2000, seed=0).batch(64)
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
        model.build((None, 64))
    start = 0
    checkpoint = rtrain.train.get_checkpoint()
    if checkpoint is not None:
        model.load_weights(f"{checkpoint.path}/model.weights.h5")
        start = checkpoint.metrics["epoch"] + 1
    model.fit(data, initial_epoch=start, epochs=EPOCHS, callbacks=[Report()], verbose=2)


if __name__ == "__main__":
    main()

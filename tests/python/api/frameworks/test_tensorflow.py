"""TensorflowTrainer on two ranks, with a kill in the middle: TensorFlow itself where it is installed (scripts/frameworks), and a
stand-in of NumPy everywhere.
"""

from __future__ import annotations

import importlib.util
import os
import pathlib
import signal
import sys

import pytest
from rtrain import data, train
from rtrain.train import FailureConfig, RunConfig, ScalingConfig
from rtrain.train.tensorflow import TensorflowCheckpoint, TensorflowConfig, TensorflowTrainer

STAND_INS = pathlib.Path(__file__).resolve().parent / "stand_ins"
IS_THERE = importlib.util.find_spec("tensorflow") is not None
needs_tensorflow = pytest.mark.skipif(
    not IS_THERE and os.environ.get("RTRAIN_FRAMEWORKS") != "required", reason="tensorflow is not installed"
)
ROWS, BATCH, EPOCHS = 32, 8, 4  # the batch is of both ranks together


def loop(config):
    import tensorflow as tf
    from rtrain.train.tensorflow import prepare_dataset_shard
    from rtrain.train.tensorflow.keras import ReportCheckpointCallback

    class Dying(tf.keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            rank = train.get_context().get_world_rank()
            if epoch == 2 and rank == 1 and config["marker"] and not os.path.exists(config["marker"]):
                open(config["marker"], "w").close()
                os.kill(os.getpid(), signal.SIGKILL)

    tf.keras.utils.set_random_seed(0)
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    assert strategy.num_replicas_in_sync == train.get_context().get_world_size()
    rows = prepare_dataset_shard(train.get_dataset_shard("train").to_tf("x", "y", batch_size=BATCH))
    off = tf.data.experimental.AutoShardPolicy.OFF
    assert rows.options().experimental_distribute.auto_shard_policy == off
    checkpoint = train.get_checkpoint()
    with strategy.scope():
        if checkpoint is None:
            model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
            model.compile(optimizer="sgd", loss="mse")
        else:
            model = TensorflowCheckpoint(checkpoint.path).get_model()
    done = int(tf.keras.backend.get_value(model.optimizer.iterations)) // (
        ROWS // BATCH
    )  # TensorFlow divides each batch by the number of ranks
    report = ReportCheckpointCallback(metrics={"error": "loss"})
    model.fit(rows, epochs=EPOCHS, initial_epoch=done, callbacks=[Dying(), report], verbose=0)
    return [float(weight.reshape(())) for weight in model.get_weights()]


def fit(cluster, folder, env, marker=""):
    points = [{"x": [number / ROWS], "y": [3.0 * number / ROWS + 1]} for number in range(ROWS)]
    return TensorflowTrainer(
        loop,
        train_loop_config={"marker": marker},
        tensorflow_config=TensorflowConfig(),
        datasets={"train": data.from_items(points)},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name=cluster.name("tensorflow"),
            storage_path=str(folder),
            env=env,
            failure_config=FailureConfig(max_failures=1 if marker else 0),
        ),
    ).fit()


@pytest.mark.parametrize("kind", ["stand-in", pytest.param("tensorflow", marks=needs_tensorflow)])
def test_a_keras_model_after_a_kill_equals_the_undisturbed_one(kind, cluster, tmp_path):
    env = {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_USE_LEGACY_KERAS": "1"}
    if kind == "stand-in":
        env = {"PYTHONPATH": f"{STAND_INS}:{cluster.environment['PYTHONPATH']}"}
    marker = str(tmp_path / "died")
    disturbed = fit(cluster, tmp_path / "disturbed", env, marker)
    assert os.path.exists(marker)
    assert len(disturbed.best_checkpoints) == EPOCHS
    assert [path.name for path in pathlib.Path(disturbed.checkpoint.path).iterdir() if path.name[0] != "."] == ["model.keras"]
    if kind == "stand-in":
        assert disturbed.return_value == pytest.approx(stepped())
        assert set(disturbed.metrics) >= {"error"}
        return
    plain = fit(cluster, tmp_path / "plain", env)
    assert disturbed.return_value == plain.return_value
    assert disturbed.metrics["error"] == plain.metrics["error"]


def stepped():
    """Returns the weights that one process computes from the batches of both ranks."""
    weight, offset = 0.0, 0.0
    for _ in range(EPOCHS):
        for step in range(ROWS // BATCH):
            rows = [rank * ROWS // 2 + step * BATCH // 2 + number for rank in range(2) for number in range(BATCH // 2)]
            points = [(row / ROWS, 3.0 * row / ROWS + 1) for row in rows]
            off = [weight * x + offset - y for x, y in points]
            slope = sum(2 * each * x for each, (x, _) in zip(off, points, strict=True)) / len(points)
            weight, offset = weight - 0.1 * slope, offset - 0.1 * sum(2 * each for each in off) / len(points)
    return [weight, offset]


@pytest.fixture
def stand_in(monkeypatch):
    for name in [name for name in sys.modules if name == "tensorflow" or name == "rtrain.train.tensorflow.keras"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(STAND_INS))
    yield importlib.import_module("tensorflow")
    for name in ("tensorflow", "rtrain.train.tensorflow.keras"):
        sys.modules.pop(name, None)


def test_to_tf_has_types_of_the_first_row_and_names_an_unknown_column(stand_in):
    shard = data.from_items([{"x": [1.0, 2.0], "z": 3, "y": 0.5}, {"x": [3.0, 4.0], "z": 4, "y": 1.5}]).iterator()
    rows = shard.to_tf(["x", "z"], "y", batch_size=2, additional_columns="z")
    features, label, beside = rows.element_spec
    assert (features["x"].shape, features["z"].shape, label.shape, beside.shape) == ((None, 2), (None,), (None,), (None,))
    ((given, labels, numbers),) = list(rows)
    assert given["x"].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert (labels.tolist(), numbers.tolist()) == ([0.5, 1.5], [3, 4])
    with pytest.raises(ValueError, match="no column 'w'; it has x, z, y"):
        shard.to_tf("w", "y")


def test_mistakes_of_the_callback_and_of_checkpoints(stand_in, tmp_path):
    from rtrain.train.tensorflow.keras import ReportCheckpointCallback

    with pytest.raises(ValueError, match="checkpoint_on is 'epoch'; the events of Keras are epoch_begin"):
        ReportCheckpointCallback(checkpoint_on="epoch")
    with pytest.raises(KeyError, match="reports 'accuracy', and Keras has loss here"):
        ReportCheckpointCallback(metrics="accuracy").on_epoch_end(0, {"loss": 1.0})
    (tmp_path / "other").touch()
    with pytest.raises(FileNotFoundError, match=r"no file 'model\.keras'; it has other"):
        TensorflowCheckpoint(str(tmp_path)).get_model()
    model = stand_in.keras.Sequential()
    assert TensorflowCheckpoint.from_model(model).get_model().get_weights() == model.get_weights()

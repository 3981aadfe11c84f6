"""JaxTrainer: one JAX program on several ranks, and a kill in the middle."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
from rtrain import train
from rtrain.train import FailureConfig, RunConfig, ScalingConfig

pytest.importorskip("jax")
from rtrain.train.jax import JaxConfig, JaxTrainer

STEPS = 6


def loop(config):
    """Fits a line by gradient descent; each rank has half of the points, and gradients are means over all devices."""
    import jax
    import jax.numpy as jnp
    from jax.experimental import multihost_utils

    rank, world = train.get_context().get_world_rank(), train.get_context().get_world_size()
    assert (jax.process_index(), jax.process_count()) == (rank, world)
    assert len(jax.devices()) == world * len(jax.local_devices())
    points = jnp.arange(16.0)[rank::world] / 16
    weights = jnp.zeros(2)
    start = 0
    if checkpoint := train.get_checkpoint():
        start, saved = checkpoint.to_dict()["step"], checkpoint.to_dict()["weights"]
        weights = jnp.asarray(saved)
    gradient = jax.jit(jax.grad(lambda w: jnp.mean((w[0] * points + w[1] - (3 * points + 1)) ** 2)))
    for step in range(start, STEPS):
        if step == 4 and rank == 1 and config["marker"] and not os.path.exists(config["marker"]):
            open(config["marker"], "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        weights = weights - 0.5 * jnp.mean(multihost_utils.process_allgather(gradient(weights)).reshape(world, 2), axis=0)
        state = {"step": step + 1, "weights": np.asarray(weights)}
        saved = train.Checkpoint.from_dict(state) if rank == 0 else None
        train.report({"step": step + 1, "slope": float(weights[0]), "offset": float(weights[1])}, checkpoint=saved)


def fit(cluster, folder, *, marker="", workers=2, failures=0):
    return JaxTrainer(
        loop,
        train_loop_config={"marker": marker},
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(
            name=cluster.name("jax"), storage_path=str(folder), failure_config=FailureConfig(max_failures=failures)
        ),
    ).fit()


def test_two_ranks_are_one_program_and_resume_exactly(cluster, tmp_path):
    plain = fit(cluster, tmp_path / "plain")
    assert plain.metrics["step"] == STEPS
    assert plain.metrics["slope"] > 0.5
    marker = str(tmp_path / "died")
    disturbed = fit(cluster, tmp_path / "disturbed", marker=marker, failures=1)
    assert os.path.exists(marker)
    assert disturbed.metrics == plain.metrics


def test_tpus_are_refused():
    with pytest.raises(ValueError, match="places no TPUs"):
        JaxConfig(use_tpu=True)

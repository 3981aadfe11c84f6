"""A custom backend: its hooks run around the loop, on all ranks."""

from __future__ import annotations

import contextlib
import dataclasses
import os

import pytest
from rtrain import train
from rtrain.train import DataParallelTrainer, RunConfig, ScalingConfig
from rtrain.train.backend import Backend, BackendConfig
from rtrain.train.torch import TorchConfig


@pytest.fixture(params=[2, 0], ids=["cluster", "local"])
def workers(request):
    return request.param


def configured(**hooks):
    """Returns a config whose Backend has these hooks. They are pickled by value, as those of a driver script are."""

    class Own(Backend):
        pass

    for name, hook in hooks.items():
        setattr(Own, name, hook)

    @dataclasses.dataclass
    class OwnConfig(BackendConfig):
        greeting: str = "hello"

        @property
        def backend_cls(self):
            return Own

        @property
        def train_func_context(self):
            @contextlib.contextmanager
            def around():
                os.environ["OWN_AROUND"] = "yes"
                yield
                os.environ["OWN_AROUND"] = "over"

            return around

    return OwnConfig()


def fit(cluster, tmp_path, loop, config, workers):
    return DataParallelTrainer(
        loop,
        backend_config=config,
        scaling_config=ScalingConfig(num_workers=workers),
        run_config=RunConfig(name=cluster.name("hooks"), storage_path=str(tmp_path)),
    ).fit()


def test_hooks_run_around_the_loop_on_all_ranks(cluster, tmp_path, workers):
    def on_start(self, group, config):
        def whoami():
            return train.get_context().get_world_rank(), os.getpid()

        def keep(all_of_them, text):
            os.environ["OWN_SEEN"] = f"{text} {len(all_of_them)} {[rank for rank, _ in all_of_them]}"

        facts = group.execute(whoami)
        assert len({pid for _, pid in facts}) == len(group)
        group.execute(keep, facts, text=config.greeting)

    def on_training_start(self, group, config):
        def mark(text):
            os.environ["OWN_LAST"] = text

        group.execute_single(len(group) - 1, mark, "me")

    def on_shutdown(self, group, config):
        seen = group.execute(lambda: os.environ["OWN_AROUND"])
        with open(os.path.join(config.folder, "shut-down"), "w") as file:  # noqa: PTH118, PTH123
            file.write(repr(seen))

    def loop():
        context = train.get_context()
        seen = [os.environ["OWN_SEEN"], os.environ.get("OWN_LAST"), os.environ["OWN_AROUND"], context.get_world_rank()]
        return train.collective.broadcast_from_rank_zero(seen), "OWN_LAST" in os.environ

    config = configured(on_start=on_start, on_training_start=on_training_start, on_shutdown=on_shutdown)
    config.folder = str(tmp_path)
    result = fit(cluster, tmp_path, loop, config, workers)
    size = max(workers, 1)
    last = "me" if size == 1 else None
    assert result.return_value == ([f"hello {size} {list(range(size))}", last, "yes", 0], size == 1)
    assert (tmp_path / "shut-down").read_text() == repr(["over"] * size)


def test_what_a_rank_raises_in_a_hook_ends_the_run_and_names_the_rank(cluster, tmp_path):
    def on_start(self, group, config):
        def fail():
            if train.get_context().get_world_rank() == 1:
                raise OSError("no such device")

        group.execute(fail)

    with pytest.raises(train.WorkerGroupError, match=r"(?s)rank 1 failed in a hook.*no such device"):
        fit(cluster, tmp_path, lambda: None, configured(on_start=on_start), 2)


def test_a_torch_config_is_a_backend_config_without_hooks():
    assert isinstance(TorchConfig(), BackendConfig)
    assert TorchConfig().backend_cls is None

"""Trainers that rtrain lacks can be imported. Their constructors raise an error that names the alternative."""

import importlib

import pytest

NAMES = {
    "horovod": (["HorovodTrainer", "HorovodConfig"], "TorchTrainer"),
}


@pytest.mark.parametrize("framework", NAMES)
def test_the_name_is_there_and_making_one_says_what_to_do(framework):
    module = importlib.import_module(f"rtrain.train.{framework}")
    names, instead = NAMES[framework]
    assert set(names) <= set(module.__all__)
    for name in names:
        with pytest.raises(NotImplementedError, match=name) as caught:
            getattr(module, name)(lambda: None, scaling_config=None)
        assert instead in str(caught.value)

"""Metrics: converted values, and the errors for other values."""

import datetime
import json
import math
import sys

import numpy
import pytest
import torch
from conftest import PACKAGE

sys.path.insert(0, str(PACKAGE))
from rtrain.train._values import _metrics  # noqa: E402


def kept(value):
    return json.loads(_metrics.encode({"x": value}))["x"]


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (1, 1),
        (True, True),
        (None, None),
        ("text", "text"),
        (numpy.float32(0.5), 0.5),
        (numpy.float64(0.25), 0.25),
        (numpy.int64(3), 3),
        (numpy.bool_(True), True),
        (numpy.str_("s"), "s"),
        (numpy.array(7), 7),
        (numpy.array([[1, 2]]), [[1, 2]]),
        (numpy.datetime64("2026-01-02"), "2026-01-02"),
        (torch.tensor(0.5), 0.5),
        (torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True), 0.5),
        (torch.tensor(True), True),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
        (datetime.timedelta(minutes=2), 120.0),
        ((1, [2, {"deep": numpy.int8(3)}]), [1, [2, {"deep": 3}]]),
        (math.nan, "NaN"),
        (numpy.float32("inf"), "Infinity"),
        (torch.tensor(-math.inf), "-Infinity"),
    ],
)
def test_what_loops_produce_is_stored(value, stored):
    result = kept(value)
    assert result == stored
    assert type(result) is type(stored)


@pytest.mark.parametrize(
    ("metrics", "named"),
    [
        ({"loss": torch.zeros(3)}, "metrics['loss'] is a Tensor of shape (3,)"),
        ({"a": {"b": [0, object()]}}, "metrics['a']['b'][1] is a object"),
        ({"c": 1j}, "metrics['c'] is a complex"),
        ({"s": {1, 2}}, "metrics['s'] is a set"),
        ({"n": {3: 4}}, "metrics['n'] has the key 3"),
        ({"raw": b"x"}, "metrics['raw'] is a bytes"),
        ([("loss", 1)], "metrics must be a dict"),
    ],
)
def test_what_cannot_be_stored_is_named(metrics, named):
    with pytest.raises(TypeError) as caught:
        _metrics.encode(metrics)
    assert named in str(caught.value)


def test_a_tensor_of_a_device_is_named_with_it():
    """Uses the device `meta`, which every machine has and whose tensors hold no data."""
    with pytest.raises(
        TypeError, match=r"metrics\['loss'\]\['a'\] is a Tensor of shape \(2,\) on meta, which cannot be a metric.*\.item\(\)"
    ):
        _metrics.encode({"loss": {"a": torch.ones(2, device="meta")}})
    with pytest.raises(TypeError, match=r"metrics\['loss'\] is a Tensor of shape \(\) on meta, whose value cannot be had"):
        _metrics.encode({"loss": torch.ones((), device="meta")})


def test_numbers_that_are_not_finite_come_back_as_numbers():
    back = _metrics.decode(json.loads(_metrics.encode({"a": math.inf, "b": [-math.inf], "c": {"d": math.nan}})))
    assert back["a"] == math.inf
    assert back["b"] == [-math.inf]
    assert math.isnan(back["c"]["d"])

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the platform tells about MindSpore tensors, and what it makes of them."""

from __future__ import annotations

import itertools

import mindspore as ms
import ml_dtypes
import numpy as np
import pytest

from hyper_parallel import get_platform
from hyper_parallel.core.shard.argument_checks import ArgumentChecks
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from hyper_parallel.platform.mindspore.platform import MindSporePlatform

DTYPES = [
    np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64, np.uint8, np.bool_,
]  # fmt: skip
platform = get_platform()


def test_the_platform():
    assert isinstance(platform, MindSporePlatform)
    assert (platform.rank, platform.world_size) == (0, 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_to_a_tensor_and_back(dtype):
    array = (np.arange(6) % 3).astype(dtype).reshape(2, 3)
    tensor = to_tensor(array)
    assert platform.dtype_name(tensor) == np.dtype(dtype).name
    for given, expected in ((tensor, array), (tensor.swapaxes(0, 1), array.T), (to_tensor(array.T), array.T)):
        assert to_array(given).dtype == dtype
        np.testing.assert_array_equal(to_array(given), expected)
    assert to_array(to_tensor(np.zeros((0, 3), dtype))).shape == (0, 3)
    assert to_array(to_tensor(np.zeros((), dtype))).shape == ()
    zeros = platform.zeros_like(tensor)
    assert zeros.dtype == tensor.dtype
    assert not to_array(zeros).any()
    assert platform.any_nonzero(tensor)
    assert not platform.any_nonzero(zeros)


def test_every_bfloat16_keeps_its_bits():
    every = np.arange(2**16, dtype=np.uint16)
    np.testing.assert_array_equal(to_array(to_tensor(every.view(ml_dtypes.bfloat16))).view(np.uint16), every)


def test_a_tensor_has_memory_of_its_own():
    array = np.ones(3, np.float32)
    tensor = to_tensor(array)
    array[0] = 5
    np.testing.assert_array_equal(to_array(tensor), [1, 1, 1])


def test_what_is_a_tensor():
    assert platform.is_tensor(ms.Tensor(1.0))
    assert platform.is_tensor(ms.Parameter(ms.Tensor([1.0]), name="p"))
    assert not any(platform.is_tensor(value) for value in (np.ones(1), [1], 1.0, None))
    assert platform.is_on_host(ms.Tensor(1.0))


def test_narrow_is_a_view_with_a_gradient():
    whole = to_tensor(np.arange(24.0).reshape(2, 3, 4))
    for dim in (1, -2):
        part = platform.narrow(whole, dim, 1, 2)
        np.testing.assert_array_equal(to_array(part), to_array(whole)[:, 1:3])
        gradient = ms.grad(lambda whole: platform.narrow(whole, dim, 1, 2).sum())(whole)  # noqa: B023
        np.testing.assert_array_equal(to_array(gradient)[:, :, 0], [[0, 1, 1]] * 2)


@pytest.mark.parametrize(
    ("dtype", "factor"),
    list(itertools.product([np.float16, ml_dtypes.bfloat16, np.float32, np.float64], [np.float32, np.float64])),
)
def test_scaled_is_rounded_once(dtype, factor):
    array = np.random.default_rng(0).standard_normal(1000).astype(dtype)
    wide = np.float32 if array.dtype.itemsize == 2 else dtype
    expected = (array.astype(wide) * np.asarray(1 / 3, factor).astype(wide)).astype(dtype)
    given = platform.scaled(to_tensor(array), to_tensor(np.array([1 / 3], factor)))
    np.testing.assert_array_equal(to_array(given), expected)


@pytest.mark.parametrize("values", [[1, 2], (1, 2), np.array([1, 2], np.int32), np.array([1, 2], np.uint8)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(values, dtype):
    given = to_tensor(values) if isinstance(values, np.ndarray) else values
    numbers = platform.host_integers(given)
    assert numbers == (1, 2)
    assert {type(number) for number in numbers} == {int}
    tensor = platform.integer_tensor(given, dtype, ms.Tensor(1.0))
    assert platform.dtype_name(tensor) == dtype
    assert tensor.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([1.0], TypeError),
        ([True], TypeError),
        ([ms.Tensor(1)], TypeError),
        (np.array([1]), TypeError),
        (ms.Tensor([1.0]), TypeError),
        (ms.Tensor([True]), TypeError),
        (ms.Tensor([[1]]), ValueError),
        (3, TypeError),
        (None, TypeError),
    ],
)
def test_what_is_no_list_of_integers(value, error):
    with pytest.raises(error, match="integers"):
        platform.host_integers(value)


def test_dtypes_by_name():
    for word, dtype in (("bfloat16", ms.bfloat16), ("float32", ms.float32), ("int64", ms.int64), ("bool", ms.bool_)):
        assert ArgumentChecks("op").dtype_word("dtype", dtype) == word


def test_operator_names():
    assert platform.get_op_name(ms.ops.Add()) == "Add"
    with pytest.raises(TypeError, match="an operator should have a name"):
        platform.get_op_name(3)

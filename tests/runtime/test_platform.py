# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The choice of the platform, the facts it tells about tensors, and what importing the package costs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import autograd
import ml_dtypes
import numpy as np
import pytest

import hyper_parallel
from hyper_parallel.platform import Platform, get_platform, selection
from hyper_parallel.platform.numpy.platform import NumpyPlatform


def choose(monkeypatch, word, installed):
    if word is None:
        monkeypatch.delenv("HYPER_PARALLEL_PLATFORM", raising=False)
    else:
        monkeypatch.setenv("HYPER_PARALLEL_PLATFORM", word)
    monkeypatch.setattr(selection, "_is_installed", lambda name: name in installed)
    return selection._choose()


@pytest.mark.parametrize(
    ("word", "installed", "chosen"),
    [
        ("numpy", {"numpy", "torch"}, "numpy"),
        ("torch", {"numpy", "torch"}, "torch"),
        (" torch ", {"numpy", "torch"}, "torch"),
        ("mindspore", {"numpy", "mindspore"}, "mindspore"),
        (None, {"numpy", "torch", "mindspore"}, "mindspore"),
        (None, {"numpy", "torch"}, "torch"),
        ("", {"numpy"}, "numpy"),
    ],
)
def test_choice(monkeypatch, word, installed, chosen):
    assert choose(monkeypatch, word, installed) == chosen


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("torhc", ValueError, "one of mindspore, torch, numpy, but got 'torhc'; did you mean 'torch'"),
        ("jax", ValueError, "one of mindspore, torch, numpy, but got 'jax'$"),
        ("torch", ImportError, r"torch is not installed; install it with: pip install 'hpgen\[torch\]'"),
        (
            "mindspore",
            ImportError,
            r"mindspore is not installed; install it with: pip install 'hpgen\[mindspore\]', on Python 3.10 to",
        ),
    ],
)
def test_wrong_choices(monkeypatch, word, error, message):
    with pytest.raises(error, match=message):
        choose(monkeypatch, word, {"numpy"})


def test_nothing_installed(monkeypatch):
    with pytest.raises(ImportError, match="none of mindspore, torch, numpy is installed"):
        choose(monkeypatch, None, set())


def test_a_folder_of_that_name_is_no_framework(monkeypatch, tmp_path):
    (tmp_path / "some_framework").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert importlib.util.find_spec("some_framework") is not None
    assert not selection._is_installed("some_framework")


def test_the_platform_is_made_once():
    assert get_platform() is get_platform()
    assert isinstance(get_platform(), NumpyPlatform)
    assert isinstance(get_platform(), Platform)


def test_importing_the_package_imports_no_framework():
    code = (
        "import sys, hyper_parallel\n"
        "loaded = {'numpy', 'torch', 'mindspore', 'autograd', 'yaml'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
        "assert set(hyper_parallel.__all__) <= set(dir(hyper_parallel))\n"
        "hyper_parallel.get_platform(), hyper_parallel.Layout\n"
        "assert not {'torch', 'mindspore'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_exports():
    for name in hyper_parallel.__all__:
        assert getattr(hyper_parallel, name).__name__.removeprefix("hyper_parallel.") == name
    with pytest.raises(AttributeError, match="module 'hyper_parallel' has no attribute 'dtensor'"):
        _ = hyper_parallel.dtensor


def test_tensor_facts():
    platform = get_platform()
    seen = []
    autograd.grad(lambda x: seen.append(platform.is_tensor(x)) or x[0])(np.ones(2))
    assert seen == [True]
    assert platform.is_tensor(np.ones(1))
    assert platform.is_on_host(np.ones(1))
    assert not any(platform.is_tensor(value) for value in ([1], 1.0, None, np.float32(1)))
    names = [platform.dtype_name(np.ones(1, kind)) for kind in (ml_dtypes.bfloat16, "f2", "f4", "f8", "i4", "i8", "?")]
    assert names == ["bfloat16", "float16", "float32", "float64", "int32", "int64", "bool"]


def test_narrow_is_a_view():
    array = np.arange(24).reshape(2, 3, 4)
    for dim in (1, -2):
        part = get_platform().narrow(array, dim, 1, 2)
        np.testing.assert_array_equal(part, array[:, 1:3])
        assert np.shares_memory(part, array)


@pytest.mark.parametrize(
    "value", [[2, 2, 5], (2, 2, 5), np.array([2, 2, 5]), np.array([2, 2, 5], np.uint8), [np.int32(2), 2, np.int64(5)]]
)
def test_host_integers(value):
    numbers = get_platform().host_integers(value)
    assert numbers == (2, 2, 5)
    assert {type(number) for number in numbers} == {int}


def test_no_host_integers():
    assert get_platform().host_integers([]) == get_platform().host_integers(np.zeros(0, np.int64)) == ()


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([1.0], TypeError),
        ([True], TypeError),
        ([np.bool_(True)], TypeError),
        ([[1]], TypeError),
        (["1"], TypeError),
        ("12", TypeError),
        (3, TypeError),
        (None, TypeError),
        ({1: 2}, TypeError),
        (np.array([1.0]), TypeError),
        (np.array([True]), TypeError),
        (np.array([[1]]), ValueError),
        (np.array(1), ValueError),
    ],
)
def test_what_is_no_list_of_integers(value, error):
    with pytest.raises(error, match="integers"):
        get_platform().host_integers(value)


def test_operator_names():
    def plain(): ...

    class Named:
        name = "npu_foo"

    assert get_platform().get_op_name(plain) == "plain"
    assert get_platform().get_op_name(Named()) == "npu_foo"
    assert get_platform().get_op_name(len) == "len"
    with pytest.raises(TypeError, match="should have a name"):
        get_platform().get_op_name(3)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Functions with a backward of their own, differentiated by the ``autograd`` package."""

from __future__ import annotations

import autograd
import autograd.numpy as anp
import ml_dtypes
import numpy as np
import pytest

from hyper_parallel.platform import get_platform
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

Function = get_platform().Function
X, Y = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])


class ProductAndSum(Function):
    """Outputs x*y*scale and x+y; gradients are marked by a factor of 7, so that they cannot come from NumPy."""

    @staticmethod
    def forward(ctx, x, y, scale, indices):
        assert not hasattr(x, "_value")
        assert not hasattr(y, "_value")
        ctx.save_for_backward(x, y)
        ctx.scale = scale
        ctx.seen = ctx.needs_input_grad
        return x * y * scale, x + y, indices

    @staticmethod
    def backward(ctx, product, total, indices):
        x, y = ctx.saved_tensors
        assert ctx.needs_input_grad == ctx.seen
        np.testing.assert_array_equal(indices, np.zeros(2, np.int64))
        return 7 * (product * y * ctx.scale + total), 7 * (product * x * ctx.scale + total), None, None


def loss(x, y):
    product, total, indices = ProductAndSum.apply(x, y, 2.0, np.array([0, 2]))
    return anp.sum(product[indices]) + 10 * anp.sum(total)


def test_without_differentiation_forward_runs_alone():
    product, total, indices = ProductAndSum.apply(X, Y, 2.0, np.array([0, 2]))
    assert type(product) is type(total) is type(indices) is np.ndarray
    np.testing.assert_array_equal(product, [8, 20, 36])


def test_gradients_are_those_of_the_backward():
    for argument in ((0, 1), (0,), (1,)):
        gradients = autograd.grad(loss, argument)(X, Y)
        expected = {0: 7 * (2 * Y * [1, 0, 1] + 10), 1: 7 * (2 * X * [1, 0, 1] + 10)}
        for position, gradient in zip(argument, gradients, strict=True):
            np.testing.assert_array_equal(gradient, expected[position])


def test_an_unused_output_has_gradient_zero():
    gradient = autograd.grad(lambda x: anp.sum(ProductAndSum.apply(x, Y, 1.0, np.array([0, 1]))[1]))(X)
    np.testing.assert_array_equal(gradient, [7, 7, 7])


def test_needs_input_grad_and_values_of_the_same_array_twice():
    class Difference(Function):
        @staticmethod
        def forward(ctx, x, y, z):
            assert ctx.needs_input_grad == (True, True, False)
            return x - y + z

        @staticmethod
        def backward(ctx, grad):
            return grad, -2 * grad, grad

    gradient = autograd.grad(lambda x: anp.sum(Difference.apply(x, x, Y)))(X)
    np.testing.assert_array_equal(gradient, [-1, -1, -1])


def test_none_is_a_gradient_of_zeros():
    class Constant(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return None

    np.testing.assert_array_equal(autograd.grad(lambda x: anp.sum(Constant.apply(x)))(X), [0, 0, 0])


def test_outputs_marked_non_differentiable_are_plain():
    class Marked(Function):
        @staticmethod
        def forward(ctx, x):
            statistics, result = x.max(keepdims=True), x * 3
            ctx.mark_non_differentiable(statistics)
            return result, statistics

        @staticmethod
        def backward(ctx, grad, statistics):
            assert statistics.shape == (1,)
            return grad * 3

    def scaled(x):
        result, statistics = Marked.apply(x)
        assert type(statistics) is np.ndarray
        return anp.sum(result / statistics)

    np.testing.assert_array_equal(autograd.grad(scaled)(X), [1, 1, 1])


def test_gradients_have_the_dtype_of_their_argument():
    class Half(Function):
        @staticmethod
        def forward(ctx, x):
            return (x.astype(np.float32) * 2).astype(x.dtype)

        @staticmethod
        def backward(ctx, grad):
            assert grad.dtype == ml_dtypes.bfloat16
            return grad.astype(np.float32) * 2

    x = np.ones(3, ml_dtypes.bfloat16)
    vjp, value = autograd.make_vjp(Half.apply)(x)
    assert value.dtype == ml_dtypes.bfloat16
    gradient = vjp(np.ones(3, ml_dtypes.bfloat16))
    assert gradient.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(gradient.astype(np.float32), [2, 2, 2])


def function_returning(value, outputs=lambda x: x * 1.0):
    class Returning(Function):
        @staticmethod
        def forward(ctx, x, y):
            return outputs(x)

        @staticmethod
        def backward(ctx, *grads):
            return value

    return Returning


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (function_returning(X), ValueError, "for each of the 2 arguments of forward, but returned 1"),
        (function_returning((X, X, X)), ValueError, "but returned 3"),
        (function_returning((X[:2], X)), ValueError, r"shape \(3,\) for argument 0, but returned \(2,\)"),
        (function_returning((X, X), lambda x: [x * 1.0]), TypeError, "a tuple of arrays, but returned a list"),
    ],
)
def test_wrong_functions(function, error, message):
    with pytest.raises(error, match=message):
        autograd.grad(lambda x: anp.sum(function.apply(x, Y)))(X)


def test_traced_arrays_in_a_list_are_refused():
    with pytest.raises(TypeError, match="argument 1 of Returning is a list of traced arrays"):
        autograd.grad(lambda x: anp.sum(function_returning(None).apply(X, [x])))(X)


@pytest.mark.parametrize("power", [1, 2])  # with 1, the gradient that comes back does not depend on the argument
def test_a_second_differentiation_is_refused(power):
    def inner(z):
        return anp.sum(ProductAndSum.apply(z, Y, 1.0, np.array([0, 1]))[0] ** power)

    with pytest.raises(TypeError, match="ProductAndSum can be differentiated once"):
        autograd.grad(lambda x: anp.sum(autograd.grad(inner)(x)))(X)


def test_missing_methods_say_what_to_define():
    class Empty(Function):
        """Neither forward nor backward."""

    with pytest.raises(NotImplementedError, match=r"static method forward\(ctx, \*args\)"):
        Empty.apply(X)


def test_four_ranks_differentiate_at_the_same_time():
    def ranks():
        scale = 1.0 + get_platform().rank
        return [autograd.grad(lambda x: anp.sum(scale * ProductAndSum.apply(x, Y, 1.0, np.array([0, 1]))[0]))(X)
                for _ in range(50)]  # fmt: skip

    for rank, gradients in enumerate(run_ranks(ranks, 4)):
        for gradient in gradients:
            np.testing.assert_array_equal(gradient, 7 * Y * (1 + rank))

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Functions with a backward of their own on MindSpore: what its `_Function` lets pass is put right or refused."""

from __future__ import annotations

import mindspore as ms
import numpy as np
import pytest

from hyper_parallel import custom_ops, get_platform
from hyper_parallel.core.shard.dfunction import DFunction
from hyper_parallel.platform.mindspore.host_arrays import to_array, to_tensor
from tests.operators import mhc_calls
from tests.operators.mhc_calls import POST

Function = get_platform().Function


def tensor(*values, dtype=np.float32):
    return to_tensor(np.array(values, dtype))


def assert_equal(given, *expected):
    np.testing.assert_array_equal(to_array(given), expected)


class Cube(Function):
    """x^3 with a backward that counts five for each, so that it is not what MindSpore would derive; and 2x, int, 3x."""

    seen = None

    @staticmethod
    def forward(ctx, x, factor, absent):
        ctx.save_for_backward(x, None)
        ctx.factor = factor
        marked = x * 3
        ctx.mark_non_differentiable(marked)
        return x * x * x * factor, x * 2, tensor(7, dtype=np.int32), marked

    @staticmethod
    def backward(ctx, *grads):
        x, nothing = ctx.saved_tensors
        assert nothing is None
        Cube.seen = grads
        return grads[0] * x * 5 * ctx.factor, None, None


def test_outputs_and_gradients():
    x = tensor(1, 2)
    outputs = Cube.apply(x, 2.0, None)
    assert isinstance(outputs, tuple)
    for output, expected in zip(outputs, ((2, 16), (2, 4), (7,), (3, 6)), strict=True):
        assert_equal(output, *expected)
    assert_equal(ms.grad(lambda x: Cube.apply(x, 2.0, None)[0].sum())(x), 10, 20)


@pytest.mark.parametrize("dtype", [ms.float32, ms.bfloat16, ms.float16, ms.float64])
def test_outputs_outside_of_the_loss_count_with_zeros(dtype):
    x = tensor(1, 2).astype(dtype)
    gradient = ms.grad(lambda x: Cube.apply(x, 2.0, None)[0].astype(ms.float32).sum())(x)
    assert gradient.dtype == dtype
    assert_equal(gradient, 10, 20)
    assert [grad.dtype for grad in Cube.seen] == [dtype, dtype, ms.int32, dtype]
    assert_equal(Cube.seen[0], 1, 1)
    for grad in Cube.seen[1:]:
        assert not to_array(grad).any()


def test_a_marked_output_leads_no_gradient_back():
    x, y = tensor(1, 2), tensor(5, 6)
    for position in (2, 3):
        gradients = ms.grad(lambda x, y: Cube.apply(x, 1.0, None)[position].sum() + y.sum(), (0, 1))(x, y)  # noqa: B023
        assert_equal(gradients[0], 0, 0)
        assert_equal(gradients[1], 1, 1)


def test_value_and_grad_of_a_parameter():
    weight = ms.Parameter(tensor(1, 2), name="weight")

    def loss():
        return Cube.apply(weight, 2.0, None)[0].sum()

    value, gradients = ms.value_and_grad(loss, None, [weight])()
    assert float(value) == 18
    assert_equal(gradients[0], 10, 20)


def test_a_none_counts_with_zeros():
    class Second(Function):
        @staticmethod
        def forward(ctx, first, second):
            return first * second

        @staticmethod
        def backward(ctx, grad):
            return None, grad * 4

    gradients = ms.grad(lambda *both: Second.apply(*both).sum(), (0, 1))(tensor(1, 2), tensor(3, 4))
    assert_equal(gradients[0], 0, 0)
    assert_equal(gradients[1], 4, 4)


def test_nothing_saved():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            assert ctx.saved_tensors == ()
            return grad * 7

    assert_equal(ms.grad(lambda x: Double.apply(x).sum())(tensor(1, 2)), 7, 7)


def returning(outputs, gradients):
    class Returns(Function):
        @staticmethod
        def forward(ctx, x):
            return outputs(x)

        @staticmethod
        def backward(ctx, *grads):
            return gradients(*grads)

    return Returns.apply


@pytest.mark.parametrize(
    ("outputs", "gradients", "error", "message"),
    [
        (lambda x: [x * 2], lambda grad: grad, TypeError, "forward should return a tensor or a tuple.*returned a list"),
        (lambda x: x * 2, lambda grad: (grad, None), ValueError, "for each of the 1 arguments.*returned 2"),
        (lambda x: x * 2, lambda grad: (), ValueError, "for each of the 1 arguments.*returned 0"),
        (lambda x: x * 2, lambda grad: grad[:1], ValueError, r"shape \(2,\) for argument 0, but returned \(1,\)"),
        (lambda x: x * 2, lambda grad: 1.0, TypeError, "a tensor or None for argument 0, but returned a float"),
    ],
    ids=["list", "too many", "too few", "shape", "number"],
)
def test_what_is_refused(outputs, gradients, error, message):
    apply = returning(outputs, gradients)
    with pytest.raises(error, match=message):
        ms.grad(lambda x: apply(x).sum())(tensor(1, 2))


def test_a_gradient_of_another_dtype_is_cast():
    apply = returning(lambda x: x * 2, lambda grad: grad.astype(ms.float64) * 3)
    gradient = ms.grad(lambda x: apply(x).astype(ms.float32).sum())(tensor(1, 2).astype(ms.bfloat16))
    assert gradient.dtype == ms.bfloat16
    assert_equal(gradient, 3, 3)


def test_errors_keep_their_type():
    def fails(*_):
        raise ArithmeticError("not today")

    with pytest.raises(ArithmeticError, match="not today"):
        returning(fails, lambda grad: grad)(tensor(1))
    with pytest.raises(ArithmeticError, match="not today"):
        ms.grad(lambda x: returning(lambda x: x * 2, fails)(x).sum())(tensor(1))
    assert_equal(ms.grad(lambda x: (x * x).sum())(tensor(1)), 2)


def test_keywords_and_defaults_of_a_dfunction():
    class Scale(DFunction):
        @staticmethod
        def forward(ctx, x, factor=2.0, *, offset=None):
            raise AssertionError("offset cannot be passed on")

    class Power(DFunction):
        @staticmethod
        def forward(ctx, x, factor=2.0, exponent=1):
            ctx.factor = factor
            return (x * x if exponent == 2 else x) * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor * 10, None, None

    assert_equal(Power.apply(tensor(1, 2), exponent=2), 2, 8)
    assert_equal(ms.grad(lambda x: Power.apply(x=x, factor=3.0).sum())(tensor(1, 2)), 30, 30)
    with pytest.raises(TypeError, match="offset by position"):
        Scale.apply(tensor(1), offset=1)


def test_recompute_runs_the_forward_twice():
    ran = []

    class Traced(Function):
        @staticmethod
        def forward(ctx, x):
            ran.append("forward")
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            ran.append("backward")
            return grad * ctx.saved_tensors[0] * 100

    class Cell(ms.nn.Cell):
        def construct(self, x):
            return Traced.apply(x * 2)

    cell = Cell()
    cell.recompute()
    assert_equal(ms.grad(lambda x: cell(x * 1).sum())(tensor(1, 2)), 400, 800)
    assert ran == ["forward", "forward", "backward"]


def test_an_operator_is_differentiated_once():
    """The kernels know no second derivative: MindSpore would find zero."""
    x, *others = (to_tensor(value) for value in mhc_calls.draw(POST, (3,), "float32").values())

    def loss(x):
        return (custom_ops.npu_mhc_post(x, *others) ** 2).sum()

    once = ms.grad(loss)
    assert to_array(once(x)).any()
    with pytest.raises(RuntimeError, match=r"kernel npu_mhc_post_backward has no derivative by itself.*not twice"):
        ms.grad(lambda x: once(x).sum())(x)
    assert to_array(once(x)).any()


def test_a_failure_in_a_loss_is_no_second_derivative():
    """MindSpore goes on recording after a differentiated function has failed."""
    x, *others = (to_tensor(value) for value in mhc_calls.draw(POST, (3,), "float32").values())

    def fails(x):
        raise ArithmeticError(x.shape)

    loss = ms.grad(lambda x: (custom_ops.npu_mhc_post(x, *others) ** 2).sum())
    expected = to_array(loss(x))
    with pytest.raises(ArithmeticError):
        ms.grad(fails)(x)
    np.testing.assert_array_equal(to_array(loss(x)), expected)


def test_a_kernel_is_not_differentiated_past_its_operator():
    kernel = get_platform().load_kernel(POST)
    tensors = [to_tensor(value) for value in mhc_calls.draw(POST, (3,), "float32").values()]
    assert kernel(*tensors)[0].shape == tensors[0].shape
    with pytest.raises(RuntimeError, match="kernel npu_mhc_post has no derivative by itself"):
        ms.grad(lambda x: kernel(x, *tensors[1:])[0].sum())(tensors[0])

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""torch as the tables of all platforms see it."""

from __future__ import annotations

import torch

from hyper_parallel import library
from hyper_parallel.platform.torch.custom_ops.custom_op_impl import to_array, to_tensor
from tests.operators.sharded_calls import Framework


def total(first, second):
    return (first.double() * second.double()).sum()


def gradients(loss, values):
    leaves = [value.detach().clone().requires_grad_() for value in values]
    return torch.autograd.grad(loss(*leaves), leaves)


# By their autograd functions: the entry points of those that torch_npu has name torch_npu's function.
TORCH = Framework(
    lambda op: library.operator(op).load_dfunction().apply,
    lambda array: to_tensor(array, torch.device("cpu")),
    to_array,
    total,
    gradients,
)

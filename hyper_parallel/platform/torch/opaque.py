# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Results that autograd cannot see into: differentiating through them is an error, not a silent zero."""

from __future__ import annotations

from typing import Any, NoReturn

import torch


class _Opaque(torch.autograd.Function):
    """Passes on `count` tensors as something that was computed from the others."""

    @staticmethod
    def forward(ctx: Any, message: str, count: int, *tensors: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        ctx.message = message
        return tuple(None if tensor is None else tensor.view_as(tensor) for tensor in tensors[:count])

    @staticmethod
    def backward(ctx: Any, *_grads: torch.Tensor) -> NoReturn:
        raise RuntimeError(ctx.message)


def opaque(message: str, results: tuple[torch.Tensor | None, ...], *inputs: Any) -> tuple[Any, ...]:
    """The results of a computation on `inputs` outside of autograd; `message` is raised by a derivative of them.

    Autograd records during a backward only if that is to be differentiated again (`create_graph=True`).
    """
    if not torch.is_grad_enabled():
        return results
    tensors = [value for value in inputs if isinstance(value, torch.Tensor) and value.requires_grad]
    if not tensors or not any(result is not None and result.is_floating_point() for result in results):
        return results
    apply: Any = _Opaque.apply
    passed: tuple[Any, ...] = apply(message, len(results), *results, *tensors)
    return passed

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Gradients against finite differences of the forward, by torch's own check in float64; plain and through DTensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hyper_parallel import DTensor, Replicate, init_device_mesh
from hyper_parallel.platform.torch.custom_ops import custom_op_impl
from hyper_parallel.reference.samples import index_statistics
from tests.operators.kl_loss_calls import DENSE, DIFFERENTIABLE, INDEX_STATISTICS, SCALE, SPARSE
from tests.operators.kl_loss_calls import draw as draw_loss
from tests.operators.mhc_calls import ATTRIBUTES, INPUTS, MHC, OUTPUT_NAMES
from tests.operators.mhc_calls import DIFFERENTIABLE as MHC_OUTPUTS
from tests.operators.mhc_calls import draw as draw_mhc

WAYS = pytest.mark.parametrize("distributed", [False, True], ids=["plain", "DTensors"])


def function_of(op: str) -> Any:
    name = "".join(word.capitalize() for word in op.split("_"))
    return getattr(custom_op_impl, f"{name}DFunction")


def call(op: str, tensors: dict[str, Any], distributed: bool, **keywords: Any) -> tuple[torch.Tensor, ...]:
    """The outputs of an operator as local tensors; through DTensors of a mesh of one rank if asked."""
    if distributed:
        mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
        tensors = {name: DTensor.from_local(value, mesh, (Replicate(),)) for name, value in tensors.items()}
    outputs = function_of(op).apply(**tensors, **keywords)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return tuple(output.to_local() if isinstance(output, DTensor) else output for output in outputs)


@WAYS
@pytest.mark.parametrize("op", MHC)
def test_hyper_connections(op: str, distributed: bool) -> None:
    tensors = {name: torch.from_numpy(value) for name, value in draw_mhc(op, (2, 1)).items()}
    names = INPUTS[op]

    def run(*values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        outputs = call(op, dict(zip(names, values, strict=True)), distributed, **ATTRIBUTES[op])
        found = dict(zip(OUTPUT_NAMES[op], outputs, strict=True))
        return tuple(found[name] for name in MHC_OUTPUTS[op])

    assert torch.autograd.gradcheck(run, tuple(tensors[name].requires_grad_() for name in names), atol=1e-6)


@WAYS
@pytest.mark.parametrize("op", [DENSE, SPARSE])
def test_indexer_losses(op: str, distributed: bool) -> None:
    arrays, _ = draw_loss(op, (1, 2), (1, 3))
    tensors = {name: torch.from_numpy(value) for name, value in arrays.items()}

    def run(*values: torch.Tensor) -> torch.Tensor:
        given = dict(zip(DIFFERENTIABLE, values, strict=True))
        if op == DENSE:  # its gradient is that of the loss whose statistics follow from what it is taken of
            found = index_statistics(**{name: value.detach().numpy() for name, value in given.items()})
            given |= {name: torch.from_numpy(value) for name, value in zip(INDEX_STATISTICS, found, strict=True)}
        return call(op, tensors | given, distributed, scale_value=SCALE)[-1]

    inputs = tuple(tensors[name].requires_grad_() for name in DIFFERENTIABLE)
    assert torch.autograd.gradcheck(run, inputs, atol=1e-5, fast_mode=True)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A torch operator of the name that torch_npu has, registered over the reference: DTensors take it to our rule."""

from __future__ import annotations

import re

import pytest
import torch
from lse_on_torch import FORMS, PACKED, Lse, check_equal, layouts_only, mesh_of_four, registered_operator

from hyper_parallel import DTensor, Replicate, Shard
from tests.operators.lse_cases import OP


@pytest.mark.parametrize("form", FORMS)
def test_a_torch_operator_of_that_name_is_dispatched(form):
    operator = registered_operator()
    _, keywords = FORMS[form]
    tensors = layouts_only(form, Replicate(), Shard(0))
    expected = Lse.apply(*tensors.values(), **keywords)
    plain = {name: tensor.to_local() for name, tensor in tensors.items()}
    for call in (operator, operator.default):
        for outputs in (
            call(*tensors.values(), **keywords),
            call(tensors["query_index"], key_index=tensors["key_index"], weights=tensors["weights"], **keywords),
            call(**dict(reversed(tensors.items())), **keywords),
        ):
            assert [output.layout for output in outputs] == [output.layout for output in expected]
            check_equal(tuple(output.to_local() for output in outputs), call(*plain.values(), **keywords))


@pytest.mark.parametrize(
    "lengths",
    [
        list,
        tuple,
        torch.tensor,
        lambda ends: DTensor.from_local(torch.tensor(ends), mesh_of_four(), (Shard(0), Replicate())),
    ],
    ids=["list", "tuple", "tensor", "DTensor"],
)
def test_a_torch_operator_takes_lengths_in_every_form(lengths):
    tensors = layouts_only("TND", Shard(0), Replicate())
    given = {name: lengths(value) if name.startswith("actual") else value for name, value in PACKED.items()}
    outputs = registered_operator()(*tensors.values(), **given)
    expected = Lse.apply(*(tensor.to_local() for tensor in tensors.values()), **PACKED)
    check_equal(tuple(output.to_local() for output in outputs), expected)


@pytest.mark.parametrize("keywords", [False, True], ids=["by position", "by keyword"])
def test_a_torch_operator_on_a_sequence_that_ranks_share(keywords):
    """Rank 0 has the first half of the rows, and all keys."""
    mesh, whole = (
        mesh_of_four(),
        {name: tensor.to_local() for name, tensor in layouts_only("TND", Replicate(), Replicate()).items()},
    )
    expected = Lse.apply(*whole.values(), **PACKED)
    rows = len(whole["weights"]) // 2
    tensors = {
        name: DTensor.from_local(
            tensor if name == "key_index" else tensor[:rows],
            mesh,
            (Replicate(), Replicate() if name == "key_index" else Shard(0)),
        )
        for name, tensor in whole.items()
    }
    outputs = (
        registered_operator()(**tensors, **PACKED) if keywords else registered_operator()(*tensors.values(), **PACKED)
    )
    assert [output.placements for output in outputs] == [(Replicate(), Shard(1))] * 2
    check_equal(tuple(output.to_local() for output in outputs), tuple(output[:, :rows] for output in expected))


def test_a_torch_operator_refuses_the_same_layouts():
    tensors = layouts_only("BSND", Shard(2), Replicate())
    message = f"For {OP}, N1 (dim 2) of query_index should be replicated, but got tensor_map=(-1, -1, 1, -1)."
    with pytest.raises(ValueError, match=re.escape(message)):
        registered_operator()(*tensors.values())


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda d: torch.add(d, 1.0), "add"),
        (lambda d: torch.add(torch.ones(2), d), "add"),
        (lambda d: torch.ops.aten.mul(d, d), "mul"),
        (torch.nn.functional.relu, "relu"),
    ],
    ids=["torch.add", "second argument", "torch.ops", "a Python function"],
)
def test_an_operator_that_is_not_registered(call, name):
    message = f"No distributed operator is registered under the name {name!r}, so it cannot run on DTensors."
    with pytest.raises(RuntimeError, match=re.escape(message)):
        call(layouts_only("BSND", Shard(0), Replicate())["weights"])

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`deal` and `undeal` on torch ranks, and the order that threads of a backward see."""

from __future__ import annotations

import pytest
import torch
from ranks import run_gloo_ranks

from tests.dealing_cases import Framework, cases_of, check_case, run_case


def gradient(function, tensor):
    leaf = tensor.detach().clone().requires_grad_()
    function(leaf).backward()
    return leaf.grad.double().numpy()


def run_cases(ranks):
    framework = Framework(
        tensor=lambda array, dtype: torch.tensor(array).to(getattr(torch, dtype)),
        array=lambda tensor: tensor.detach().double().numpy(),
        gradient=gradient,
        wide=lambda tensor: tensor.float(),
    )
    return [run_case(case, framework) for case in cases_of(ranks)]


def check_ranks(ranks):
    found = run_gloo_ranks(run_cases, ranks, ranks)
    for case, *here in zip(cases_of(ranks), *found, strict=True):
        check_case(case, here)


def test_two_ranks():
    check_ranks(2)


@pytest.mark.slow
def test_four_ranks():
    check_ranks(4)


def test_second_derivatives():
    """Dealt rows of one rank in both directions, differentiated twice."""
    from hyper_parallel import init_device_mesh
    from hyper_parallel.context_parallel import deal, undeal

    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("cp",))
    x = torch.arange(1.0, 5.0, dtype=torch.float64, requires_grad=True)

    def there_and_back(x):
        return undeal(deal(x, mesh, 0, "zigzag"), mesh, 0, "zigzag").to_local()

    torch.autograd.gradcheck(there_and_back, x)
    torch.autograd.gradgradcheck(lambda x: there_and_back(x**3), x)


def test_a_checkpoint_runs_in_the_order_around_its_backward():
    """What docs/context_parallel.md says of forwards that are run once more."""
    from torch.utils.checkpoint import checkpoint

    from hyper_parallel.context_parallel import current_sequence_order, sequence_order, set_default_sequence_order

    seen = []

    def forward(x):
        seen.append(current_sequence_order().name)
        return x.sin()

    x = torch.ones(2, requires_grad=True)
    with sequence_order("zigzag"):
        y = checkpoint(forward, x, use_reentrant=False)
    y.sum().backward()
    with sequence_order("zigzag"):
        checkpoint(forward, x, use_reentrant=False).sum().backward()
    before = set_default_sequence_order("zigzag")
    try:
        y = checkpoint(forward, x, use_reentrant=False)
        y.sum().backward()
    finally:
        set_default_sequence_order(before)
    assert seen == ["zigzag", "contiguous", "zigzag", "zigzag", "zigzag", "zigzag"]

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`deal` and `undeal` on torch ranks, and the order that threads of a backward see."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ranks import run_gloo_ranks

from tests import gathered_keys
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
    dealt = [run_case(case, framework) for case in cases_of(ranks)]
    return dealt, [gathered_keys.run_case(case, framework) for case in gathered_keys.cases_of(ranks)]


def check_ranks(ranks):
    dealt, gathered = zip(*run_gloo_ranks(run_cases, ranks, ranks), strict=True)
    for case, *here in zip(cases_of(ranks), *dealt, strict=True):
        check_case(case, here)
    for case, *here in zip(gathered_keys.cases_of(ranks), *gathered, strict=True):
        gathered_keys.check_case(case, here)


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


def second_derivative(queries, keys, seen):
    """Of the sum of squares of a gradient, with respect to this rank's keys; keys gathered in contiguous order."""
    from hyper_parallel import Partial, init_device_mesh
    from hyper_parallel.context_parallel import undeal

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("cp",))
    rows = slice(mesh.rank * 4, mesh.rank * 4 + 4)
    query, mask = torch.tensor(queries[rows]), torch.tensor(seen[rows])
    part = torch.tensor(keys[rows], requires_grad=True)
    scores = query @ undeal(part, mesh, 0, grad_placements=(Partial(),)).to_local().T * mask
    (gradient,) = torch.autograd.grad((scores**2).sum(), part, create_graph=True)
    (gradient**2).sum().backward()
    return gradient.detach().numpy(), part.grad.numpy()


def test_second_derivatives_of_gathered_keys():
    random = np.random.default_rng(0)
    queries, keys = random.normal(size=(2, 8, 3))
    seen = np.tril(np.ones((8, 8)))
    (first, second), (first_of_other, second_of_other) = run_gloo_ranks(second_derivative, 2, queries, keys, seen)

    def gradient(of):  # of the sum of squared scores: linear in the keys, so that it is its own derivative
        return 2 * (queries @ of.T * seen).T @ queries

    np.testing.assert_allclose(np.concatenate((first, first_of_other)), gradient(keys))
    np.testing.assert_allclose(np.concatenate((second, second_of_other)), 2 * gradient(gradient(keys)))


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

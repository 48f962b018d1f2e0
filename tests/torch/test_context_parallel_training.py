# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Twenty steps on a sequence that four ranks share, beside the same steps on one device.

AdamW hides a factor that all gradients of a parameter have in common, so gradients are compared at every step as well.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from attention_training import STEPS, Training, largest_errors, train_on_one_device, train_on_ranks
from ranks import run_gloo_ranks

from hyper_parallel.context_parallel import SequenceOrder

RANKS = 4
RAGGED = (5, 0, 17, 1, 25)  # in 8 chunks of 6 tokens: two documents lie on several ranks
OTHER = (20, 3, 18, 7)
PLAIN = {
    "fixed length": Training(((24,),), rows=2),
    "ragged documents": Training((RAGGED,)),
    "each document dealt": Training(((8, 24, 16),), SequenceOrder("zigzag", per_document=True)),
    "two micro-batches": Training((RAGGED, OTHER)),
    "scaled loss": Training((RAGGED,), loss_scale=1024.0),
    "two micro-batches, scaled loss": Training((RAGGED, OTHER), loss_scale=1024.0),
}
TRAININGS = PLAIN | {f"{name}, float32": replace(training, dtype="float32") for name, training in PLAIN.items()}
FORGETFUL = {forgotten: Training((RAGGED,), forgotten=forgotten) for forgotten in ("keys", "parameters")}
TOLERANCES = {"float64": 1e-9, "float32": 1e-4}


@pytest.fixture(scope="module")
def trained():
    """Case -> what each rank has seen. The ranks are started once."""
    cases = TRAININGS | FORGETFUL
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HYPER_PARALLEL_KERNELS", "reference")  # which compute in float64
        seen = run_gloo_ranks(train_on_ranks, RANKS, list(cases.values()), timeout=280)
    return dict(zip(cases, zip(*seen, strict=True), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("case", TRAININGS)
def test_every_step_is_that_of_one_device(trained, case):
    expected = train_on_one_device(TRAININGS[case])
    assert len(expected.losses) == STEPS
    assert expected.losses[-1] < 0.8 * expected.losses[0]
    tolerance = TOLERANCES[TRAININGS[case].dtype]
    for rank, found in enumerate(trained[case]):
        losses, gradients = largest_errors(found, expected)
        assert losses < tolerance, rank
        assert gradients < tolerance, rank


@pytest.mark.slow
@pytest.mark.parametrize("forgotten", FORGETFUL)
def test_a_sum_that_is_left_out_shows(trained, forgotten):
    expected = train_on_one_device(FORGETFUL[forgotten])
    losses, gradients = largest_errors(trained[forgotten][0], expected)
    assert losses > 1e-6
    assert gradients > 1e-2

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Steps on a sequence that gloo ranks share, with compiled kernels in float32, against torch's own formulas."""

from __future__ import annotations

from attention_training import Training, largest_errors, train_on_one_device, train_on_ranks
from ranks import run_gloo_ranks

from tests.native_kernels.no_reference import forbid_references

TRAININGS = [
    Training(((24,),), rows=2, dtype="float32"),
    Training(((5, 0, 17, 1, 25), (20, 3, 18, 7)), loss_scale=1024.0, dtype="float32"),
]


def train_compiled(trainings):
    forbid_references()
    return train_on_ranks(trainings)


def test_every_step_is_that_of_one_device():
    seen = run_gloo_ranks(train_compiled, 4, TRAININGS, timeout=280)
    for at, training in enumerate(TRAININGS):
        expected = train_on_one_device(training)
        for rank, found in enumerate(seen):
            losses, gradients = largest_errors(found[at], expected)
            assert losses < 1e-4, (training, rank)
            assert gradients < 1e-4, (training, rank)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The softmax in its two halves: together they are the softmax, and what is no number is not hidden."""

from __future__ import annotations

import numpy as np

from hyper_parallel.reference.row_softmax import probabilities, row_statistics

SCORES = np.array([[1.0, -2.0, 700.0], [0.5, 3.0, 2.0]])
MASK = np.array([[True, True, False], [True, True, True]])


def test_the_halves_are_the_softmax() -> None:
    given = probabilities(SCORES, *row_statistics(SCORES, MASK), MASK)
    exponentials = np.exp(np.where(MASK, SCORES, -np.inf))
    np.testing.assert_allclose(given, exponentials / exponentials.sum(axis=-1, keepdims=True), rtol=1e-14)


def test_a_row_without_keys_has_no_probability() -> None:
    nothing = np.zeros_like(MASK)
    row_max, row_sum = row_statistics(SCORES, nothing)
    assert (row_max == -np.inf).all()
    assert not row_sum.any()
    assert not probabilities(SCORES, row_max, row_sum, nothing).any()


def test_nan_stays_nan() -> None:
    scores = SCORES.copy()
    scores[0, 1] = np.nan
    given = probabilities(scores, *row_statistics(scores, MASK), MASK)
    assert np.isnan(given[0, MASK[0]]).all()
    assert np.isfinite(given[1]).all()

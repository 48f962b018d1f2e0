# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`deal` and `undeal` on MindSpore ranks."""

from __future__ import annotations

import numpy as np
import pytest
from ranks import run_mccl_ranks

from tests.dealing_cases import Framework, cases_of, check_case, run_case


def run_cases(ranks, step):
    import mindspore as ms

    framework = Framework(
        tensor=lambda array, dtype: ms.Tensor(np.asarray(array, np.float32)).astype(getattr(ms, dtype)),
        array=lambda tensor: tensor.astype(ms.float32).asnumpy().astype(np.float64),
        gradient=lambda function, tensor: ms.grad(function)(tensor).astype(ms.float32).asnumpy().astype(np.float64),
        wide=lambda tensor: tensor.astype(ms.float32),
    )
    return [run_case(case, framework) for case in cases_of(ranks)[::step]]


def check_ranks(ranks, step=1):
    found = run_mccl_ranks(run_cases, ranks, ranks, step)
    for case, *here in zip(cases_of(ranks)[::step], *found, strict=True):
        check_case(case, here)


def test_two_ranks():
    check_ranks(2, step=4)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_every_case(ranks):
    check_ranks(ranks)

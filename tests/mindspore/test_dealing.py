# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`deal` and `undeal` on MindSpore ranks."""

from __future__ import annotations

import numpy as np
import pytest
from ranks import run_mccl_ranks

from tests import gathered_keys
from tests.dealing_cases import Framework, cases_of, check_case, run_case


def framework():
    import mindspore as ms

    return Framework(
        tensor=lambda array, dtype: ms.Tensor(np.asarray(array, np.float32)).astype(getattr(ms, dtype)),
        array=lambda tensor: tensor.astype(ms.float32).asnumpy().astype(np.float64),
        gradient=lambda function, tensor: ms.grad(function)(tensor).astype(ms.float32).asnumpy().astype(np.float64),
        wide=lambda tensor: tensor.astype(ms.float32),
    )


def run_cases(ranks, step):
    dealt = [run_case(case, framework()) for case in cases_of(ranks)[::step]]
    gathered = [gathered_keys.run_case(case, framework()) for case in gathered_keys.cases_of(ranks)[::step]]
    return dealt, gathered


def check_ranks(ranks, step=1):
    dealt, gathered = zip(*run_mccl_ranks(run_cases, ranks, ranks, step), strict=True)
    for case, *here in zip(cases_of(ranks)[::step], *dealt, strict=True):
        check_case(case, here)
    for case, *here in zip(gathered_keys.cases_of(ranks)[::step], *gathered, strict=True):
        gathered_keys.check_case(case, here)


def test_two_ranks():
    check_ranks(2, step=4)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_every_case(ranks):
    check_ranks(ranks)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An operator of an installed library on torch ranks: DTensors of hyper_parallel and of torch."""

from __future__ import annotations

import os

import pytest
from library_on_torch import check_ranks
from ranks import run_gloo_ranks

from tests.operator_library import install, run_with


def test_two_ranks(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.setenv("HYPER_PARALLEL_KERNELS", "reference")  # the compiled kernel has tests of its own
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert run_gloo_ranks(check_ranks, 2) == [True, True]


DEFINED = """
import torch
import hyper_parallel.torch_library

x, branch, gate = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3)
out = torch.ops.hyper_parallel.acme_gated_add(x, branch, gate)
torch.testing.assert_close(out, x + torch.sigmoid(gate) * branch)
print(torch.ops.hyper_parallel.npu_mhc_post.default._schema.name)
"""


def test_an_operator_of_torch_library(tmp_path) -> None:
    install(tmp_path)
    assert run_with(tmp_path, script=DEFINED, platform="torch") == "hyper_parallel::npu_mhc_post\n"


def test_a_library_without_torch_library_files(tmp_path) -> None:
    """It was generated earlier: the others are defined, and a warning says what to do."""
    install(tmp_path)
    for path in tmp_path.rglob("acme_gated_add/torch_library.py"):
        path.unlink()
    script = """
import warnings
import torch
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import hyper_parallel.torch_library
assert torch.ops.hyper_parallel.npu_mhc_post
print(*(item.message for item in caught if "acme" in str(item.message)))
"""
    said = run_with(tmp_path, script=script, platform="torch")
    assert said.startswith("There is no torch.ops.hyper_parallel.acme_gated_add: ")
    assert "run 'hpgen ops' again" in said

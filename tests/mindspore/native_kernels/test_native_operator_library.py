# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The kernel that an installed library brings, on MindSpore ranks, beside the built-in ones in one process."""

from __future__ import annotations

import os
from pathlib import Path

import library_on_mindspore
import pytest
from ranks import run_mccl_ranks

from tests.native_kernels.no_reference import forbid_references
from tests.operator_library import OP, install


def check_ranks():
    from hyper_parallel import library
    from hyper_parallel.native.flavours import MindSporeFlavour
    from hyper_parallel.native.kernels import native_module

    forbid_references()
    assert library_on_mindspore.check_ranks()
    modules = [native_module(each, MindSporeFlavour()) for each in library.catalogue().libraries]
    for module in modules:
        assert b"14hyper_parallel" not in Path(module.__file__).read_bytes(), "a symbol that modules would share"
    return [sorted(name for name in vars(module) if not name.startswith("_")) for module in modules]


@pytest.mark.timeout(600)  # compiles the library's kernel, for a minute or so
def test_two_ranks(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    for built_in, own in run_mccl_ranks(check_ranks, 2, timeout=540):
        assert own == [OP, f"{OP}_backward"]
        assert "npu_mhc_post" in built_in
        assert OP not in built_in, "each module has the operators of its own library"

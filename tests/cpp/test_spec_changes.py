# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An edit of the kernel call in a spec is what the compiled runner launches."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorder import Launch, compile_recorder

from tests.compiler import needs_compiler
from tests.generator.spec_texts import LSE, ROOT, hpgen, lse_text, write_spec

pytestmark = needs_compiler

CALL = ["tensor:bfloat16:2,4,8,128", "tensor:bfloat16:2,6,1,128", "tensor:float32:2,4,8", "none", "none"]
CALL += ["str:BSND", "int:3", "int:7", "int:8"]


def launch(folder: Path, *edits: tuple[str, str]) -> Launch:
    """Generate an edited spec, compile its runner and record the one launch of a BSND call."""
    made = hpgen("ops", write_spec(folder, lse_text(*edits)), "-o", folder / "generated", cwd=folder)
    assert made.returncode == 0, made.stderr
    recorder = compile_recorder(folder / "generated" / LSE / f"{LSE}.cc", [ROOT], "ascend", folder / "build")
    (only,) = recorder.launches(CALL)
    return only


def test_moving_arguments_of_the_kernel_moves_them_in_the_launch(tmp_path: Path) -> None:
    moved = launch(
        tmp_path,
        ("(query_index, key_index, weights,", "(weights, query_index, key_index,"),
        ("pre_tokens, next_tokens, softmax_max, softmax_sum", "softmax_sum, next_tokens, pre_tokens, softmax_max"),
    )
    assert moved.arguments[:3] == ("input 2", "input 0", "input 1")
    assert moved.arguments[7:] == ("output 1 float32 [2, 1, 4]", "int64 8", "int64 7", "output 0 float32 [2, 1, 4]")


def test_dims_literals_and_conditions_reach_the_kernel(tmp_path: Path) -> None:
    changed = launch(
        tmp_path,
        (
            "softmax_max, softmax_sum)",
            'S1 if layout == "BSND" else 0, N1 // 3, True, 1.5, "x", None, softmax_max, softmax_sum)',
        ),
    )
    assert changed.arguments[9:] == (
        "int64 4",
        "int64 2",
        "bool true",
        "double 1.5",
        "str x",
        "null tensor",
        "output 0 float32 [2, 1, 4]",
        "output 1 float32 [2, 1, 4]",
    )


def test_an_operator_without_a_host_kernel_says_so(tmp_path: Path) -> None:
    text = lse_text(("  cpu: dense_lightning_indexer.h\n", ""))
    made = hpgen("ops", write_spec(tmp_path, text), "-o", tmp_path / "generated", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    recorder = compile_recorder(tmp_path / "generated" / LSE / f"{LSE}.cc", [ROOT], "cpu", tmp_path / "build")
    with pytest.raises(
        RuntimeError, match=f"{LSE} has no kernel for the CPU, only aclnnDenseLightningIndexerSoftmaxLse"
    ):
        recorder.call(CALL)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The C++ of the fixture operators, compiled into one unit for Ascend: what a call launches in each format."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.compiler import needs_compiler
from tests.fixtures.library import fixture_library

from .spec_texts import ROOT

pytestmark = needs_compiler


def load_recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fixture_recorder", ROOT / "tests" / "cpp" / "recorder.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("fixtures")
    unit = folder / "fixtures.cc"
    sources = sorted(fixture_library().generated.glob("*/*.cc"))
    unit.write_text("".join(f'#include "{path}"\n' for path in sources))
    return load_recorder().compile_recorder(unit, [ROOT], "ascend", folder / "build")


PAD = "lengths:1,2 {strides} str:float16 str:float64 str:{mode} int:1 float:0.5 float:0.25 bool:true str:note"
LAUNCHES: dict[str, tuple[str, str, list[str]]] = {
    "gated_half, axis from the right": (
        "gated_half",
        "tensor:bfloat16:3,4,2 int:-2",
        ["GatedHalf | input 0 | int64 -2 | int64 2 | int64 3 | output 0 bfloat16 [3, 2, 2] | output 1 float32 [3, 2, 2]"],
    ),
    "gated_half, axis from the left": (
        "gated_half",
        "tensor:float16:4 int:0",
        ["GatedHalf | input 0 | int64 0 | int64 2 | int64 1 | output 0 float16 [2] | output 1 float32 [2]"],
    ),
    "gated_half backward": (
        "gated_half_backward",
        "tensor:bfloat16:3,2,2 tensor:bfloat16:3,4,2 view:bfloat16:4,3,2 tensor:bfloat16:3,2,2,2 int:1",
        ["GatedHalfGrad | input 0 | input 1 | input 2 | input 3 | int64 1 | int64 3 | output 0 bfloat16 [3, 4, 2]"],
    ),
    "rms_norm": (
        "rms_norm",
        "tensor:float16:2,3,4 tensor:float16:4 none float:0.5 bool:true",
        ["RmsNorm | input 0 | input 1 | null tensor | double 0.5 | bool true | output 0 float16 [2, 3, 4] | output 1 float32 [2, 3, 1]"],
    ),
    "rms_norm without leading dims": (
        "rms_norm",
        "tensor:float16:4 tensor:float16:4 tensor:float16:4 float:0.5 bool:false",
        ["RmsNorm | input 0 | input 1 | input 2 | double 0.5 | bool false | output 0 float16 [4] | output 1 float32 [1]"],
    ),
    "rms_norm backward without beta": (
        "rms_norm_backward",
        "tensor:float16:2,4 tensor:float32:2,1 tensor:float16:2,4 tensor:float16:4 none tensor:float32:2,1 float:0.5",
        ["RmsNormGrad | input 0 | input 1 | input 2 | input 3 | null tensor | input 5 | double 0.5 | output 0 float16 [2, 4] | output 1 float16 [4] | null tensor"],
    ),
    "project": (
        "project",
        "tensor:float16:2,3,4 tensor:float16:6,4",
        ["Project | input 0 | input 1 | output 0 float16 [2, 3, 6]"],
    ),
    "project backward": (
        "project_backward",
        "tensor:float16:2,3,6 view:float16:4,6 tensor:float16:2,3,4 tensor:float16:6,6 tensor:float16:6,4 tensor:float16:6,4",
        [
            "ProjectGradInput | input 0 | input 1 | output 0 float16 [2, 3, 4]",
            "ProjectGradWeight | input 3 | input 4 | int64 6 | int64 4 | output 1 float16 [6, 4]",
        ],
    ),
    "grouped_scores, BSND": (
        "grouped_scores",
        "tensor:bfloat16:2,3,8,5 tensor:bfloat16:2,3,2,5",
        ["GroupedScores | input 0 | input 1 | int32 4 | output 0 float32 [2, 3, 8] | output 1 float32 [1] | output 2 float32 [1] | output 3 float32 [1] | output 4 int32 [1]"],
    ),
    "grouped_scores, TND": (
        "grouped_scores",
        "tensor:bfloat16:3,8,5 tensor:bfloat16:3,4,5",
        ["GroupedScores | input 0 | input 1 | int32 2 | output 0 float32 [3, 8] | output 1 float32 [1] | output 2 float32 [1] | output 3 float32 [1] | output 4 int32 [1]"],
    ),
    "grouped_scores backward": (
        "grouped_scores_backward",
        "tensor:float32:3,8 tensor:float32:1 tensor:bfloat16:3,8,5 tensor:bfloat16:3,4,5",
        ["GroupedScoresGrad | input 0 | input 1 | input 2 | input 3 | int64 2 | output 0 bfloat16 [3, 8, 5] | output 1 bfloat16 [3, 4, 5]"],
    ),
    "pad_and_cast, BL": (
        "pad_and_cast",
        "tensor:bfloat16:3,4 int:6 tensor:float32:4 " + PAD.format(strides="none", mode="edge"),
        [
            "PadPlan | input 0 | ints [1, 2] | ints [1, 2] | null ints | int32 6 | int64 2 | dtype float16 | temporary 0 int64 [64]",
            "PadRows | input 0 | temporary 0 int64 [64] | null tensor | null ints | int64 9223372036854775807 | double inf | int64 -1 | str both ends | temporary 1 bfloat16 [3, 8]",
            "PadAndCast | input 0 | input 2 | int64 0 | ints [1, 2] | str edge | int64 1 | double 0.5 | double 0 | bool true | dtype float16 | dtype float64 | temporary 0 int64 [64] | temporary 1 bfloat16 [3, 8] | output 0 float16 [3, 7] | output 1 float64 [3, 1] | output 2 float32 [3, 4]",
        ],
    ),
    "pad_and_cast, L": (
        "pad_and_cast",
        "tensor:float32:4 int:6 tensor:float32:4 " + PAD.format(strides="lengths:3", mode="constant"),
        [
            "PadPlan | input 0 | ints [1, 2] | ints [1, 2] | null ints | int32 6 | int64 1 | dtype float16 | temporary 0 int64 [64]",
            "PadRows | input 0 | temporary 0 int64 [64] | null tensor | ints [3] | int64 9223372036854775807 | double inf | int64 -1 | str both ends | temporary 1 float32 [8]",
            "PadAndCast | input 0 | input 2 | int64 7 | ints [1, 2] | str constant | int64 1 | double 0.5 | double 0.25 | bool true | dtype float16 | dtype float64 | temporary 0 int64 [64] | temporary 1 float32 [8] | output 0 float16 [7] | output 1 float64 [1] | output 2 float32 [4]",
        ],
    ),
    "pad_and_cast backward": (
        "pad_and_cast_backward",
        "tensor:float16:7 tensor:float64:1 tensor:float32:4 tensor:float32:4 tensor:float32:4 lengths:1,2 lengths:3 float:0.5 str:edge bool:false float:0.25",
        ["PadAndCastGrad | input 0 | input 1 | input 2 | input 3 | input 4 | ints [1, 2] | ints [3] | double 0.5 | str edge | bool false | double 0.25 | output 0 float32 [4]"],
    ),
    "document_sum, BSD": (
        "document_sum",
        "tensor:float16:2,4,3 tensor:float16:2,3 none none str:BSD",
        ["DocumentSum | input 0 | input 1 | null tensor | null ints | str BSD | double 0.5 | int64 3 | int64 0 | output 0 float16 [2, 4, 3] | output 1 int32 [2, 4]"],
    ),
    "document_sum, TD": (
        "document_sum",
        "tensor:float16:8,3 tensor:float16:2,3 tensor:float16:2 lengths:0,3,8 str:TD",
        ["DocumentSum | input 0 | input 1 | input 2 | ints [0, 3, 8] | str TD | double 1 | int64 3 | int64 2 | output 0 float16 [8, 3] | output 1 int32 [8]"],
    ),
    "document_sum backward, TD": (
        "document_sum_backward",
        "tensor:float16:8,3 tensor:int32:8 tensor:float16:8,3 tensor:float16:2,3 none lengths:0,3,8 str:TD",
        ["DocumentSumGrad | input 0 | input 1 | input 2 | input 3 | null tensor | ints [0, 3, 8] | int64 3 | str TD | output 0 float16 [8, 3] | output 1 float16 [2, 3]"],
    ),
    "document_scale": (
        "document_scale",
        "tensor:float16:8,3 tensor:int32:2 tensor:float16:2 lengths:8 none",
        ["DocumentScale | input 0 | input 1 | input 2 | ints [8] | null tensor | int64 8 | int64 2 | output 0 float16 [8, 3] | output 1 float16 [1] | output 2 float16 [8, 3]"],
    ),
    "block_tables, BSD": (
        "block_tables",
        "tensor:float16:4,2,7 int:3 tensor:float32:6,7 tensor:float32:3 int:2 str:BSD",
        ["BlockTables | input 0 | input 2 | input 3 | int64 3 | int64 3 | int64 -2 | int64 2 | str BSD | output 0 float16 [4, 2, 3] | output 1 float32 [4, 2, 1, 2, 3] | output 2 float64 [4, 4, 1, 11]"],
    ),
    "block_tables, TD": (
        "block_tables",
        "tensor:float16:4,7 int:7 tensor:float32:1,1 tensor:float32:1 int:9 str:TD",
        ["BlockTables | input 0 | input 2 | input 3 | int64 7 | int64 1 | int64 0 | int64 9 | str TD | output 0 float16 [4, 1] | output 1 float32 [4, 0, 7, 2] | output 2 float64 [18, 1, 1, 2]"],
    ),
    "head_mix, BSND": (
        "head_mix",
        "tensor:float16:2,4,3,5 tensor:float16:3 none none str:BSND bool:false",
        ["HeadMix | reshape(input 0) float16 [2, 4, 15] | input 0 | input 1 | null tensor | null tensor | str BSND | bool false | int64 2 | output 0 float16 [2, 4, 15] | output 1 uint8 [2, 4, 3, 5] | output 2 float32 [2, 4, 3] | output 3 float32 [2, 4, 3]"],
    ),
    "head_mix, BNSD": (
        "head_mix",
        "tensor:float16:2,3,4,5 tensor:float16:3 tensor:float16:3,5 none str:BNSD bool:true",
        ["HeadMix | reshape(input 0) float16 [2, 3, 20] | input 0 | input 1 | input 2 | null tensor | str BNSD | bool true | int64 2 | output 0 float16 [2, 4, 15] | output 1 uint8 [2, 3, 4, 5] | output 2 float32 [2, 3, 4] | output 3 float32 [2, 3, 4]"],
    ),
    "head_mix, TND": (
        "head_mix",
        "tensor:float16:4,3,5 tensor:float16:3 none tensor:float32:3 str:TND bool:true",
        ["HeadMix | reshape(input 0) float16 [4, 15] | input 0 | input 1 | null tensor | reshape(input 3) float32 [1, 3] | str TND | bool true | int64 4 | output 0 float16 [4, 15] | output 1 uint8 [4, 3, 5] | output 2 float32 [4, 3] | output 3 float32 [4, 3]"],
    ),
    "head_mix backward, BNSD": (
        "head_mix_backward",
        "tensor:float16:2,4,3,5 tensor:uint8:6,4,5 view:float16:2,3,5,4 tensor:float32:2,3,4,1 tensor:float16:2,3,4,5 tensor:float16:3 tensor:uint8:2,3,4,5 view:uint8:2,4,3,5 none str:BNSD none",
        [
            "HeadMixGradRows | input 0 | input 1 | input 2 | temporary 0 float32 [8, 3] | temporary 1 float16 [3, 5]",
            "HeadMixGrad | input 0 | input 3 | input 4 | input 5 | input 6 | input 7 | temporary 0 float32 [8, 3] | temporary 1 float16 [3, 5] | null tensor | str BNSD | double 0.5 | int64 15 | int64 5 | int64 3 | null ints | null tensor | bool true | output 0 float16 [2, 3, 4, 5] | output 1 float16 [3] | null tensor",
        ],
    ),
    "head_shift": (
        "head_shift",
        "tensor:float16:2,5,4,3 tensor:float16:3 str:BDSN",
        ["HeadShift | input 0 | input 1 | str BDSN | output 0 float16 [2, 4, 15]"],
    ),
    "head_shift backward": (
        "head_shift_backward",
        "tensor:float16:4,3,5 tensor:float16:12,5 tensor:float16:3 str:TND",
        [
            "HeadShiftSums | input 0 | int64 3 | temporary 0 float16 [3, 2]",
            "HeadShiftGrad | input 1 | temporary 0 float16 [3, 2] | output 0 float16 [3]",
        ],
    ),
    "distance_step, batched": (
        "distance_step",
        "tensor:float16:2,4,3 tensor:float16:2,4,3 str:batched none",
        ["DistanceStep | input 0 | input 1 | null tensor | int64 0 | str batched | output 0 float32 [] | output 1 float16 [2, 4, 3] | output 2 float16 [2, 4, 3] | output 3 float16 [3]"],
    ),
    "distance_step, packed": (
        "distance_step",
        "tensor:float16:4,3 tensor:float16:4,3 str:packed tensor:float16:3",
        ["DistanceStep | input 0 | input 1 | input 3 | int64 1 | str packed | output 0 float32 [] | output 1 float16 [4, 3] | output 2 float16 [4, 3] | output 3 float16 [3]"],
    ),
    "windowed_top, BSD": (
        "windowed_top",
        "tensor:float16:2,3,4 tensor:float16:2,5,4 tensor:int32:2,3,7 none none none str:BSD int:3 int:1",
        ["WindowedTop | input 0 | input 1 | input 2 | null tensor | ints [] | null tensor | str BSD | int64 3 | int64 1 | output 0 int32 [2, 3] | output 1 float32 [2, 5]"],
    ),
    "windowed_top, TD": (
        "windowed_top",
        "tensor:float16:6,4 tensor:float16:9,4 none tensor:int32:2 lengths:2,6 tensor:int64:2 str:TD int:0 int:2",
        ["WindowedTop | input 0 | input 1 | null tensor | input 3 | ints [2, 6] | input 5 | str TD | int64 0 | int64 2 | output 0 int32 [6] | output 1 float32 [9]"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("op", "given", "expected"), LAUNCHES.values(), ids=LAUNCHES)
def test_launches(recorder: Any, op: str, given: str, expected: list[str]) -> None:
    found = recorder.launches(given.split(), op)
    texts = [" | ".join([launch.kernel.removeprefix("aclnn"), *launch.arguments]) for launch in found]
    assert [text.replace(" strided", "") for text in texts] == expected


def test_every_function_is_called() -> None:
    sources = [path.read_text() for path in Path(fixture_library().generated).glob("*/*.cc")]
    defined = {line.split('"')[1] for text in sources for line in text.splitlines() if line.startswith("  m.def(")}
    assert defined == {op for op, _, _ in LAUNCHES.values()}


PADDED = "tensor:float32:4 int:6 tensor:float32:4 " + PAD
ERRORS: dict[str, tuple[str, str, str]] = {
    # op, arguments, and what is said behind "For op, "
    "axis": ("gated_half", "tensor:float16:4 int:1", "dim should be from -1 to 0, a dim of x, but got 1"),
    "axis of no dims": ("gated_half", "tensor:float16: int:0", "dim should be from 0 to -1, a dim of x, but got 0"),
    "gradient of a halved axis": ("gated_half_backward", "tensor:bfloat16:3,3,2 tensor:bfloat16:3,4,2 view:bfloat16:4,3,2 tensor:bfloat16:3,2,2,2 int:1", "... (dim 1) of grad_out should be 2, but got 3"),
    "rank by which formats are told": ("grouped_scores", "tensor:float16:4,2 tensor:float16:4,2", "q should have 4 or 3 dims, but got 2"),
    "any rank, too few": ("rms_norm", "tensor:float16: tensor:float16:4 none float:1 bool:true", "x should have at least 1 dims (... C), but got shape ()"),
    "last of any rank": ("rms_norm", "tensor:float16:2,3 tensor:float16:4 none float:1 bool:true", "C (dim 0) of gamma should be 3, but got 4"),
    "optional, an extent": ("rms_norm", "tensor:float16:2,4 tensor:float16:4 tensor:float16:3 float:1 bool:true", "C (dim 0) of beta should be 4, but got 3"),
    "optional, the dtype": ("rms_norm", "tensor:float16:2,4 tensor:float16:4 tensor:float32:4 float:1 bool:true", "beta should have dtype float16, but got float32"),
    "any rank in a backward": ("rms_norm_backward", "tensor:float16:3,4 tensor:float32:2,1 tensor:float16:2,4 tensor:float16:4 none tensor:float32:2,1 float:1", "... (dim 0) of grad_y should be 2, but got 3"),
    "an integer behind any rank": ("rms_norm_backward", "tensor:float16:2,4 tensor:float32:2,2 tensor:float16:2,4 tensor:float16:4 none tensor:float32:2,1 float:1", "1 (dim 1) of grad_rstd should be 1, but got 2"),
    "transposed": ("project_backward", "tensor:float16:2,3,6 tensor:float16:4,5 tensor:float16:2,3,4 tensor:float16:6,6 tensor:float16:6,4 tensor:float16:6,4", "F (dim 1) of w_transposed should be 6, but got 5"),
    "expression of a later dim": ("block_tables", "tensor:float16:4,2,7 int:3 tensor:float32:5,7 tensor:float32:3 int:2 str:BSD", "fact(N) (dim 0) of orders should be 6, but got 5"),
    "expression with a division": ("block_tables", "tensor:float16:4,2,7 int:3 tensor:float32:6,6 tensor:float32:3 int:2 str:BSD", "N+N*N//2 (dim 1) of orders should be 7, but got 6"),
    "extents of attributes": ("block_tables", "tensor:float16:4,7 int:7 tensor:float32:1,1 tensor:float32:1 int:-9 str:TD", "min(D,steps) (dim 2) of parts should be at least 0, but got -9"),
    "no dims": ("pad_and_cast", PADDED.format(strides="none", mode="edge").replace("float32:4", "float32:", 1), "x should have 2 or 1 dims, but got 0"),
    "tensor behind attributes": ("pad_and_cast", PADDED.format(strides="none", mode="edge").replace("float32:4 lengths", "float32:5 lengths"), "L (dim 0) of weight should be 4, but got 5"),
    "documents of the lengths": ("document_sum", "tensor:float16:8,3 tensor:float16:3,3 none lengths:0,3,8 str:TD", "M (dim 0) of state should be 2, but got 3"),
    "documents of a required tensor": ("document_sum", "tensor:float16:8,3 tensor:float16:2,3 tensor:float16:3 none str:TD", "M (dim 0) of decay should be 2, but got 3"),
    "lengths without a leading zero": ("document_sum", "tensor:float16:8,3 tensor:float16:2,3 none lengths:1,3,8 str:TD", "ends should start with 0 and hold at least one document end, but got [1, 3, 8]"),
    "lengths in another format": ("document_sum", "tensor:float16:2,4,3 tensor:float16:2,3 none lengths:0,8 str:BSD", "ends should be None in format BSD, which has no dim T, but got (0, 8)"),
    "lengths in a backward": ("document_sum_backward", "tensor:float16:8,3 tensor:int32:8 tensor:float16:8,3 tensor:float16:2,3 none lengths:0,3,7 str:TD", "ends should end at T = 8, the number of tokens, but got [0, 3, 7]"),
    "saved tensor": ("document_sum_backward", "tensor:float16:8,3 tensor:int64:8 tensor:float16:8,3 tensor:float16:2,3 none lengths:0,3,8 str:TD", "starts should have dtype int32, but got int64"),
    "documents of lengths on the device": ("document_scale", "tensor:float16:8,3 tensor:int32:3 tensor:float16:2 lengths:8 none", "M (dim 0) of factor should be 3, but got 2"),
    "required lengths on the host": ("document_scale", "tensor:float16:8,3 tensor:int32:2 tensor:float16:2 lengths: none", "heads should end at T = 8, the number of tokens, but got []"),
    "lengths on the device in another format": ("windowed_top", "tensor:float16:2,3,4 tensor:float16:2,5,4 none none none tensor:int64:2 str:BSD int:3 int:1", "k_ends should be None in format BSD, which has no dim T2, but got a tensor of shape (2,)"),
    "lengths of the keys": ("windowed_top", "tensor:float16:6,4 tensor:float16:9,4 none none lengths:2,6 tensor:int64:3 str:TD int:0 int:2", "q_ends and k_ends should have as many documents, but got 2 and 3"),
    "an adapted gradient": ("head_mix_backward", "tensor:float16:2,4,5,3 tensor:uint8:6,4,5 view:float16:2,3,5,4 tensor:float32:2,3,4,1 tensor:float16:2,3,4,5 tensor:float16:3 tensor:uint8:2,3,4,5 view:uint8:2,4,3,5 none str:BNSD none", "N (dim 2) of grad_out should be 3, but got 5"),
    "a flattened tensor": ("head_mix_backward", "tensor:float16:2,4,3,5 tensor:uint8:5,4,5 view:float16:2,3,5,4 tensor:float32:2,3,4,1 tensor:float16:2,3,4,5 tensor:float16:3 tensor:uint8:2,3,4,5 view:uint8:2,4,3,5 none str:BNSD none", "B*N (dim 0) of mask_flattened should be 6, but got 5"),
    "a format that is none": ("distance_step", "tensor:float16:4 tensor:float16:4 str:flat none", "kind should be one of 'batched', 'packed', but got 'flat'"),
}  # fmt: skip


@pytest.mark.parametrize(("op", "given", "words"), ERRORS.values(), ids=ERRORS)
def test_wrong_arguments(recorder: Any, op: str, given: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=f"For {op}, {re.escape(words)}"):
        recorder.launches(given.split(), op)


@pytest.mark.parametrize(
    ("op", "given", "words"),
    [
        ("head_mix_backward", "", "has 11 arguments in C"),
        ("pad_and_cast", PADDED.format(strides="none", mode="edge").replace("float64", "half"), "'half' is none"),
    ],
)
def test_errors(recorder: Any, op: str, given: str, words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        recorder.launches(given.split(), op)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the committed C++ of every operator launches, against the tables of launch_cases.py.

All operators are compiled into one translation unit, as the extension module is built.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from launch_cases import CASES, CLAMP, POST, PRE, Case
from recorder import Flavour, Launch, Recorder, compile_recorder
from wrong_arguments import WRONG

from tests.compiler import needs_compiler

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {path.parent.name: path for path in sorted((ROOT / "generated").glob("*/*.cc"))}
WITH_BACKWARD = {POST, PRE, CLAMP}

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def ascend(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return compiled("ascend", tmp_path_factory.mktemp("ascend"))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Recorder:
    return compiled("cpu", tmp_path_factory.mktemp("cpu"))


def compiled(flavour: Flavour, folder: Path) -> Recorder:
    """All operators in one translation unit."""
    unit = folder / "operators.cc"
    unit.write_text("".join(f'#include "{path}"\n' for path in GENERATED.values()))
    return compile_recorder(unit, [ROOT], flavour, folder)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_launch(ascend: Recorder, case: Case) -> None:
    call = ascend.call(case.given.split(), case.op)
    assert call.launches == [Launch(case.kernel, case.arguments)]
    assert call.outputs == case.outputs


def test_every_operator_and_every_backward_is_in_the_table() -> None:
    assert {case.op for case in CASES.values()} == {*GENERATED, *(f"{op}_backward" for op in WITH_BACKWARD)}


@pytest.mark.parametrize("op", sorted(GENERATED.keys() - WITH_BACKWARD))
def test_operators_without_a_backward_kernel(ascend: Recorder, op: str) -> None:
    with pytest.raises(RuntimeError, match=f"no operator {op}_backward is registered"):
        ascend.call([], f"{op}_backward")


@pytest.mark.parametrize(
    "name", ["lse, BSND", "dense, BSND", "sparse, BSND", "top k, BSND"], ids=lambda name: name.split(",")[0]
)
def test_unknown_layout(ascend: Recorder, name: str) -> None:
    case = CASES[name]
    given = case.given.replace("str:BSND", "str:BNSD").split()
    with pytest.raises(RuntimeError, match=f"For {case.op}, layout should be one of 'BSND', 'TND', but got 'BNSD'"):
        ascend.call(given, case.op)


@pytest.mark.parametrize("name", ["post, BSND", "pre, BSNC", "clamp, BSNC"], ids=lambda name: name.split(",")[0])
@pytest.mark.parametrize("extents", ["6,16", "1,2,3,4,16"], ids=["2 dims", "5 dims"])
def test_unknown_rank(ascend: Recorder, name: str, extents: str) -> None:
    case = CASES[name]
    given = case.given.replace("2,3,4,16", extents, 1).split()
    with pytest.raises(
        RuntimeError, match=f"For {case.op}, x should have 4 or 3 dims, but got {extents.count(',') + 1}"
    ):
        ascend.call(given, case.op)


@pytest.mark.parametrize(("op", "given", "npu", "_"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_on_an_npu(ascend: Recorder, op: str, given: str, npu: str, _: str) -> None:
    assert refusal(ascend, op, given) == npu.format(op=op)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "given", "_", "here"), WRONG.values(), ids=WRONG)
def test_wrong_arguments_on_the_host(host: Recorder, op: str, given: str, _: str, here: str) -> None:
    assert refusal(host, op, given) == here.format(op=op)


def refusal(recorder: Recorder, op: str, given: str) -> str:
    """What the operator says of its arguments; empty if it takes them."""
    try:
        recorder.call(given.split(), op)
    except RuntimeError as error:
        return str(error).replace("mindspore::", "")
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("flavour", ["ascend", "cpu"])
@pytest.mark.parametrize("op", GENERATED)
def test_every_file_compiles_by_itself(op: str, flavour: Flavour, tmp_path: Path) -> None:
    assert compile_recorder(GENERATED[op], [ROOT], flavour, tmp_path).binary.is_file()

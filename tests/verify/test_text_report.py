# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The report for people, line by line, from reports made here."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import click
import pytest

from hpgen.library import load_library
from hpgen.verify.printing import printed
from hpgen.verify.report import ExtensionRow, OperatorReport, Report, WrongClaim
from hpgen.verify.task import Task

from .small_specs import WINDOW, small_spec, write_small

CLAIM = WrongClaim(
    form="TND",
    mesh={"dp": 2, "cp": 2},
    placements={"x": "T=dp,cp", "weight": "replicated"},
    lengths={"ends": [[3, 4], [4, 4]]},
    attributes={"window": 3},
    order="zigzag, per document",
    rank=2,
    what="gradient",
    name="weight",
    index=(1,),
    expected="0.5",
    got="0.25",
    text="1 of 4 elements is wrong",
    case='{"it\'s": 1}',
    count=5,
    claimed="Partial(sum)=cp",
)
RIGHT = OperatorReport("npu_one", "specs/npu_one.yaml", 36, 0, 64, 5, 1234, {"formats": ["BSD"]}, seconds=0.26)
ROW = ExtensionRow("BSD", "shard: [D]", {"x": "D=cp"}, {"out": "D=cp"}, {"x": "D=cp"})


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Task]:
    specs = {op: small_spec(op) for op in ("npu_one", "npu_other")}
    write_small(tmp_path, specs, {"window": WINDOW})
    monkeypatch.chdir(tmp_path)
    library = load_library([Path("specs")])
    return [Task(spec, library.folder) for spec in library.specs]


def lines_of(tasks: list[Task], *operators: OperatorReport, form: str = "text", verbose: bool = False) -> list[str]:
    return [click.unstyle(line) for line in printed(Report(operators, verbose=verbose), tasks, form)]


def test_one_line_for_each_operator_in_columns(tasks: list[Task]) -> None:
    wrong = replace(RIGHT, op="npu_other", right=8, wrong=12, claims=(CLAIM,), cached=True)
    assert lines_of(tasks, RIGHT, wrong)[:3] == [
        "      operator   right  wrong  refused  cases  extensions    time",
        "ok    npu_one       36      0       64    100           0   0.3 s",
        "FAIL  npu_other      8     12       64     84           0  cached",
    ]


def test_everything_about_a_wrong_claim(tasks: list[Task]) -> None:
    lines = lines_of(tasks[:1], replace(RIGHT, wrong=5, claims=(CLAIM,)))
    start = next(at for at, line in enumerate(lines) if line.startswith("npu_one:"))
    end = lines.index("  to run it again:")
    assert lines[start:end] == [
        "npu_one: format TND: the gradient of weight is wrong on rank 2: 1 of 4 elements is wrong "
        "(in 5 of the cases that were looked at; the smallest:)",
        "  mesh        dp=2 x cp=2",
        "  placements  x       T=dp,cp",
        "              weight  replicated",
        "  lengths     ends: [3, 4] | [4, 4]",
        "  attributes  window=3",
        "  order       zigzag, per document",
        "  where       element [1] of the part of rank 2",
        "  as claimed  Partial(sum)=cp",
        "  expected    0.5",
        "  got         0.25",
    ]
    assert lines[end + 2] == """hpgen verify specs/npu_one.yaml --case '{"it'"'"'s": 1}'"""


def test_a_call_that_fails_has_no_place(tasks: list[Task]) -> None:
    claim = replace(CLAIM, what="error", name="", rank=-1, index=(), expected="", got="", text="KeyError: 'x'", count=1)
    lines = lines_of(tasks[:1], replace(RIGHT, wrong=1, claims=(claim,)))
    assert "npu_one: format TND: KeyError: 'x'" in lines
    assert not [line for line in lines if re.match("  (where|expected|got) ", line)]
    assert "print(call.difference())  # what goes wrong before there is anything to compare" in lines


def test_what_is_wrong_on_one_device_has_no_placement(tasks: list[Task]) -> None:
    claim = replace(CLAIM, what="alone", name="", rank=-1, text="NameError: ww (in forward, gated.py:4)")
    lines = lines_of(tasks[:1], replace(RIGHT, wrong=1, claims=(claim,)))
    start = lines.index("npu_one: format TND: wrong on one device")
    assert lines[start + 1 : start + 4] == [
        "  NameError: ww (in forward, gated.py:4)",
        "  called with x, weight; ends=[3, 4], window=3",
        "",
    ]


def test_an_extension_of_several_formats_is_said_once(tasks: list[Task]) -> None:
    rows = (ROW, replace(ROW, form="TD"), replace(ROW, form="ND", add="linear: [[x]]"))
    lines = lines_of(tasks[:1], replace(RIGHT, extensions=rows))
    start = lines.index("  npu_one, format BSD, TD: shard: [D]")
    assert lines[start + 1 : start + 5] == [
        "    given      x: D=cp",
        "    outputs    out: D=cp",
        "    gradients  x: D=cp",
        "  npu_one, format ND: linear: [[x]]",
    ]


def test_what_was_covered(tasks: list[Task]) -> None:
    covered = {"formats": ["BSD"], "orders": [f"order{number}" for number in range(20)]}
    lines = lines_of(tasks[:1], replace(RIGHT, covered=covered, notes=("no gradients: none",)), verbose=True)
    start = lines.index("Covered:") + 1
    assert lines[start] == (
        "  npu_one: 36 cases run, 64 refused, of which 5 were run without the rule; 1,234 placements on these meshes"
    )
    assert lines[start + 1] == "    formats: BSD"
    assert " ".join(lines[start + 2 : start + 5]).count("order") == 13  # the word itself, and twelve
    assert "and 8 more" in " ".join(lines)
    assert "    no gradients: none" in lines


def test_nothing_right_is_a_failure(tasks: list[Task]) -> None:
    nothing = replace(RIGHT, right=0, reasons=("B should be replicated.",))
    lines = lines_of(tasks[:1], nothing)
    assert "  refused: B should be replicated." in lines
    assert lines[1].startswith("FAIL")
    assert "npu_one could not be verified" in lines
    (command,) = lines_of(tasks[:1], nothing, form="github")
    assert command.startswith("::error file=specs/npu_one.yaml,line=9,title=npu_one::no case was right")


def test_what_could_not_be_verified(tasks: list[Task]) -> None:
    failed = OperatorReport.unverified("npu_one", "specs/npu_one.yaml", "it was not done,\nand was stopped")
    lines = lines_of(tasks, failed, replace(RIGHT, op="npu_other"))
    assert lines[1] == "FAIL  npu_one        -      -        -      -           -      -"
    assert lines[lines.index("npu_one could not be verified") + 1] == "  it was not done, and was stopped"
    assert lines[-1] == "2 operators: 1 wrong or not verified; --verbose lists what was covered"
    (command,) = lines_of(tasks[:1], failed, form="github")
    assert command.startswith("::error file=specs/npu_one.yaml,line=11,title=npu_one::it was not done,%0A")

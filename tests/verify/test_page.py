# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The HTML report: one well-formed file that needs nothing else, readable without colours, and safe."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hpgen.library import load_library
from hpgen.verify.html_report import MARKS, page
from hpgen.verify.report import Cell, ExtensionRow, OperatorReport, Report, WrongClaim
from hpgen.verify.task import Task

from .small_specs import WINDOW, small_spec, verify, write_small

HOSTILE = "</pre><script>alert('x')</script>&amp;\"'"
CLAIM = WrongClaim(
    form="BSD",
    mesh={"cp": 2},
    placements={"x": f"S=cp {HOSTILE}"},
    lengths={},
    attributes={"word": HOSTILE},
    order="zigzag",
    rank=1,
    what="output",
    name="out",
    index=(0, 1),
    expected="1",
    got="2",
    text=HOSTILE,
    case="{}",
)
CELLS = (
    Cell("BSD", "replicated", "dp=2 x cp=2", "right"),
    Cell("BSD", "B=dp S=cp", "dp=2 x cp=2", "wrong", HOSTILE),
    Cell("BSD", "B=dp,cp", "dp=2 x cp=2", "right"),
    Cell("BSD", "B=cp,dp", "dp=2 x cp=2", "refused"),
    Cell("BSD", "D=cp", "dp=2 x cp=2", "extension"),
    Cell("BSD", "Partial(sum): x", "cp=2", "refused", HOSTILE),
)
ROW = ExtensionRow("BSD", "reduce: {D: sum}", {"x": "D=cp"}, {"out": "Partial(sum)=cp"}, {})
FOUND = OperatorReport(
    "npu_window", HOSTILE, 1, 1, 2, 1, 9, {"words": [HOSTILE]}, (CLAIM,), (ROW,), CELLS, 1.0, (HOSTILE,)
)


@pytest.fixture
def tasks(tmp_path: Path) -> list[Task]:
    write_small(tmp_path, {"npu_window": small_spec("npu_window")}, {"window": WINDOW})
    library = load_library([tmp_path / "specs"])
    return [Task(library.specs[0], library.folder)]


def parsed(text: str) -> ElementTree.Element:
    assert text.startswith("<!DOCTYPE html>\n")
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def assert_contained(text: str) -> None:
    root = parsed(text)
    assert {node.tag for node in root.iter()}.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    for node in root.iter():
        assert node.attrib.keys().isdisjoint({"src", "style", "srcset", "onclick", "onload"})
        assert node.get("href", "#").startswith("#")
    style = "".join(root.find("head/style").itertext())  # type: ignore[union-attr]
    assert not re.search(r"url\(|@import|http", style)
    assert "prefers-color-scheme: dark" in style


def test_what_specs_and_references_say_is_text(tasks: list[Task]) -> None:
    text = page(Report((FOUND,), {"seed": 0}), tasks)
    assert_contained(text)
    assert HOSTILE in "".join(parsed(text).itertext())


def test_each_verdict_has_a_sign_besides_its_colour(tasks: list[Task]) -> None:
    root = parsed(page(Report((FOUND,), {}), tasks))
    matrix = next(table for table in root.iter("table") if "dp=2 x cp=2" in "".join(table.itertext()))
    rows = [[" ".join("".join(cell.itertext()).split()) for cell in row] for row in matrix.iter("tr")]
    assert rows == [
        ["dp", "-", "B", "D", "S"],
        ["-", "✓", "", "+", ""],
        ["B", "", "✓", "", "✗"],
    ]
    for cell in root.iter("td"):
        verdict = set(cell.get("class", "").split()) & MARKS.keys()
        if "mark" in cell.get("class", "") and verdict:
            assert cell.text in (MARKS[next(iter(verdict))], "FAIL") or cell.text.startswith(MARKS[next(iter(verdict))])  # type: ignore[union-attr]


def test_the_others_are_listed(tasks: list[Task]) -> None:
    text = "".join(parsed(page(Report((FOUND,), {}), tasks)).itertext())
    assert "Other placements (1)" in text
    assert "reduce: {D: sum}" in text
    assert "hpgen verify" in text
    assert "from hpgen.verify.replay import open_case" in text


def test_what_could_not_be_verified_is_on_the_page(tasks: list[Task]) -> None:
    failed = OperatorReport.unverified("npu_window", "specs/npu_window.yaml", "no reference")
    text = page(Report((failed,), {}), tasks)
    assert_contained(text)
    assert "Could not be verified: no reference" in text
    assert "cached" in page(Report((replace(FOUND, cached=True),), {}), tasks)


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    write_small(tmp_path, {"npu_window": small_spec("npu_window", "B, S")}, {"window": WINDOW})
    result = verify("specs/", "--format", "html", "-o", "report.html", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert_contained(text)
    assert {node.get("class", "") for node in parsed(text).iter("td")} >= {"mark right", "mark wrong", "mark refused"}

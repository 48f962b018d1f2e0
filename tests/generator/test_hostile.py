# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Hostile specs: each is rendered harmless, or refused at a place, with little time and memory."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from hpgen.diagnostics import Source, SpecError
from hpgen.spec.check import check_spec
from hpgen.spec.load import load_spec
from hpgen.spec.source import read_source
from tests.fuzz.judge import check_text

from .hostile import counts, documents, expressions, words
from .hostile.case import ACCEPTED, Case, spec
from .spec_texts import tree

TABLES = (
    documents.files,
    documents.documents,
    counts.counts,
    words.names,
    words.texts,
    expressions.expressions,
    expressions.extents,
    expressions.kernel_calls,
)
CASES = {case.name: case for table in TABLES for case in table()}
PROCESS = Path(__file__).parent / "hostile" / "process.py"
MEGABYTES = 300
MOST_SAID = 300_000
PLACE = re.compile(r"^specs/[^\n:]*(?::(\d+):(\d+))?: error\[(HP\d+)\]: ", re.MULTILINE)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


def folder_of(root: Path, case: Case) -> Path:
    return root / f"case_{list(CASES).index(case.name)}"


@pytest.fixture(scope="module")
def results(root: Path) -> dict[str, dict[str, Any]]:
    """What became of each case."""
    for case in CASES.values():
        case.prepare(folder_of(root, case))
    command = [sys.executable, str(PROCESS), *(str(folder_of(root, case)) for case in CASES.values())]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    found = [json.loads(line) for line in run.stdout.splitlines()]
    return dict(zip(CASES, found, strict=True))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_harmless_or_refused(case: Case, results: dict[str, dict[str, Any]], root: Path) -> None:
    result, folder = results[case.name], folder_of(root, case)
    said = result["output"]
    assert result["exit"] in (0, 1), f"ended with {result['exit']} after {result['seconds']:.1f} s: {said[-2000:]}"
    assert result["kilobytes"] < MEGABYTES * 1024
    assert "Traceback" not in said
    assert len(said) < MOST_SAID
    assert all(char.isprintable() or char in "\n\t" for char in said)
    assert {path.name for path in folder.iterdir()} <= {"specs", "out", "output.txt", "arguments"}
    if case.rule == ACCEPTED:
        assert result["exit"] == 0, said
        check_tree(folder / "out")
    else:
        assert result["exit"] == 1, said
        rules = [match.group(3) for match in PLACE.finditer(said)]
        assert any(rule.startswith(case.rule) for rule in rules), said[:2000]
        assert not (folder / "out").exists()


def check_tree(out: Path) -> None:
    """Every file is of the operator or the index, and parses."""
    files = tree(out)
    assert len(files) > 5
    for path, data in files.items():
        assert path.startswith("npu_hostile/") or "/" not in path, path
        check_text(PurePosixPath(path), data.decode())


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The superuser may read everything, so the refusal is made up."""
    path = tmp_path / "npu_hostile.yaml"
    path.write_text("op: npu_hostile\n")

    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SpecError, match=r"^specs/npu_hostile\.yaml: error\[HP001\]: cannot be read: Permission denied"):
        read_source(path, "specs/npu_hostile.yaml")


@pytest.mark.parametrize("count", [100, 300])
def test_one_file_has_a_hundred_messages_at_most(count: int) -> None:
    """What comes behind would help nobody, and takes its time."""
    names = ", ".join(f"D{number} > 1" for number in range(count))
    text = spec(require=f"[{names}]")
    with pytest.raises(SpecError) as caught:
        check_spec(load_spec(Source("specs/npu_hostile.yaml", text)))
    *_, last = caught.value.diagnostics
    assert len(caught.value.diagnostics) == 101
    assert (last.rule, last.message) == ("HP005", "that makes 100 mistakes; whether there are more is not looked for")

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

from tests.fuzz.judge import check_text

from .hostile_cases import ACCEPTED, Case, all_cases
from .spec_texts import tree

CASES = {case.name: case for case in all_cases()}
PROCESS = Path(__file__).with_name("hostile_process.py")
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

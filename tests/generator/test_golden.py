# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every folder of tests/golden/ is a case: specs/, and in expected/ each byte that they must give."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from ..golden.update import case_folders, expected, generated

CASES = case_folders()
MOST_LINES = 60


def differences(old: dict[str, bytes], new: dict[str, bytes]) -> list[str]:
    """A unified diff of two trees, shortened file by file."""
    lines: list[str] = []
    for path in sorted(old.keys() | new.keys()):
        before, after = (tree.get(path, b"").decode(errors="replace").splitlines() for tree in (old, new))
        sides = (f"expected/{path}" if path in old else "/dev/null", path if path in new else "/dev/null")
        found = list(difflib.unified_diff(before, after, *sides, lineterm=""))
        if not found and old.get(path) != new.get(path):
            found = [f"{path}: differs in line ends or bytes that are not text"]
        lines += found[:MOST_LINES]
        if len(found) > MOST_LINES:
            lines.append(f"... {len(found) - MOST_LINES} more lines")
    return lines


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_specs_give_the_expected_tree(case: Path) -> None:
    found = differences(expected(case), generated(case))
    assert not found, "\n".join([*found, f"if this is meant: python tests/golden/update.py {case.name}"])


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 20


def test_a_difference_is_shown_with_its_line() -> None:
    shown = differences({"a/b.py": b"one\ntwo\n", "gone.py": b"x\n"}, {"a/b.py": b"one\n2\n", "new.py": b"y\n"})
    assert "-two" in shown
    assert "+2" in shown
    assert {"+++ /dev/null", "--- /dev/null"} < set(shown)


def test_line_ends_are_compared_too() -> None:
    assert differences({"a": b"x\n"}, {"a": b"x\r\n"})

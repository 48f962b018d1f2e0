# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""docs/verify.md: its commands run and give what it shows; the rule by hand is caught, and right once it is mended."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from .small_specs import EXAMPLE, ROOT, verify

PAGE = (ROOT / "docs" / "verify.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def commands(block: str) -> list[list[str]]:
    return [words for line in block.splitlines() if (words := shlex.split(line, comments=True))]


def without_numbers(text: str) -> list[str]:
    return [" ".join(re.sub(r"-?\d+(\.\d+)?", "N", line).split()) for line in text.splitlines()]


def test_the_first_commands_run(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    found = commands(blocks("sh")[0])
    assert len(found) == 6
    for words in found:
        assert words[:2] == ["hpgen", "verify"]
        if "--thorough" not in words:  # see below
            result = verify(*words[2:], cwd=tmp_path)
            assert (result.returncode, result.stderr) == (0, ""), words


@pytest.mark.slow
def test_the_thorough_one_too(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "specs", tmp_path / "specs")
    (words,) = [words for words in commands(blocks("sh")[0]) if "--thorough" in words]
    result = verify(*words[2:], cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_rule_by_hand_is_caught_and_mended(tmp_path: Path) -> None:
    folder = tmp_path / "docs" / "verify_example"
    shutil.copytree(EXAMPLE, folder)
    _, first, again, last, _ = blocks("sh")  # the last one is for the tests of torch and MindSpore
    shown, parts = blocks("text")
    (cd, generated, by_hand) = commands(first)
    assert tmp_path / cd[1] == folder
    assert verify(*generated[2:], cwd=folder).returncode == 0

    result = verify(*by_hand[2:], cwd=folder)
    assert (result.returncode, result.stderr) == (1, "")
    assert "\n".join(without_numbers(shown)) in "\n".join(without_numbers(result.stdout))

    (words,) = commands(again)
    result = verify(*words[2:], cwd=folder)
    assert result.returncode == 1
    assert result.stdout == parts

    rule = folder / "running_sum_rule.py"
    (diff,) = blocks("diff")
    old, new = ("".join(f"{line[1:]}\n" for line in diff.splitlines() if line[0] == sign) for sign in "-+")
    assert old in rule.read_text()
    rule.write_text(rule.read_text().replace(old, new))
    (words,) = commands(last)
    result = verify(*words[2:], cwd=folder)
    assert result.returncode == 0, result.stdout
    assert result.stdout.splitlines()[1].startswith("ok ")


def test_the_example_is_as_shown() -> None:
    (spec,) = blocks("yaml")
    assert (EXAMPLE / "specs" / "acme_running_sum.yaml").read_text() == spec
    (rule,) = blocks("python")
    assert rule in (EXAMPLE / "running_sum_rule.py").read_text()


def test_the_mutants_have_their_place() -> None:
    assert "](verify_mutants.md)" in PAGE.split("\n## Mutants\n")[1]

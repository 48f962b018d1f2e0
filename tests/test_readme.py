# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the README shows is what happens: every command and every piece of code in it is run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.generator.spec_texts import hpgen

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    found = re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    assert found, f"the README has no {language} block"
    return found


def commands() -> list[list[str]]:
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


def test_every_hpgen_command_runs(tmp_path: Path) -> None:
    for folder in ("specs", "generated"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    ours = [words for words in commands() if words[0] == "hpgen" and words[1] != "build"]  # see tests/native_kernels
    assert len(ours) == 8
    for words in ours:
        result = hpgen(*words[1:], cwd=tmp_path)
        assert result.returncode == 0, (words, result.stdout, result.stderr)


def test_every_make_command_is_run_by_ci() -> None:
    ci = (ROOT / ".ci" / "run").read_text()
    targets = [words[1] for words in commands() if words[0] == "make"]
    assert targets == ["ops", "test"]
    for target in targets:
        assert re.search(rf"^make {target}$", ci, flags=re.MULTILINE), target


def test_there_is_no_other_command() -> None:
    assert {words[0] for words in commands()} == {"hpgen", "make"}


@pytest.mark.parametrize("page", ["README.md", "docs/runtime.md", "docs/modules.md", "docs/context_parallel.md"])
def test_the_python_code_runs(page: str) -> None:
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE))
    assert code
    environment = os.environ | {"HYPER_PARALLEL_PLATFORM": "numpy"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_spec_generates_and_its_mistake_is_shown_as_printed(tmp_path: Path) -> None:
    (spec,) = blocks("yaml")
    assert len(spec.splitlines()) <= 15
    path = tmp_path / "specs" / "npu_row_norm.yaml"
    path.parent.mkdir()
    path.write_text(spec)
    assert hpgen("ops", "specs/", cwd=tmp_path).returncode == 0

    path.write_text(spec.replace("BSD: B S D,", "BSD: B S E,"))
    shown = next(block for block in blocks("text") if "HP102" in block)
    assert shown in hpgen("ops", "specs/", cwd=tmp_path).stderr


def test_the_stale_message_is_as_printed(tmp_path: Path) -> None:
    (spec,) = blocks("yaml")
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "npu_row_norm.yaml").write_text(spec)
    hpgen("ops", "specs/", cwd=tmp_path)
    api = tmp_path / "generated" / "npu_row_norm" / "api.py"
    api.write_text(api.read_text() + "\n")
    result = hpgen("ops", "specs/", "--check", cwd=tmp_path)
    shown = next(block for block in blocks("text") if block.startswith("stale"))
    assert result.stdout + result.stderr == shown


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_links_lead_somewhere(page: str) -> None:
    prose = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", prose):
        assert ((ROOT / page).parent / target).exists(), target

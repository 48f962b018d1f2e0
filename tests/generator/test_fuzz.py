# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs and broken specs drawn at random: accepted with output that parses, or refused at a place. `tests/fuzz` draws."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hpgen.diagnostics import Diagnostic, Note, Source, Span
from tests.compiler import needs_compiler
from tests.fuzz import found
from tests.fuzz.batch import Batch
from tests.fuzz.broken_specs import broken_spec, real_specs
from tests.fuzz.campaign import Campaign
from tests.fuzz.judge import Finding, judge
from tests.fuzz.valid_specs import valid_spec

from .formatters import tool
from .spec_texts import ROOT

DRAWN = st.randoms(use_true_random=False)
QUICK = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@QUICK
@given(DRAWN)
def test_specs_over_the_whole_language(folder: Path, draw: random.Random) -> None:
    judge(valid_spec(draw).encode(), folder)


@QUICK
@given(DRAWN)
def test_broken_specs(folder: Path, draw: random.Random) -> None:
    judge(broken_spec(draw), folder)


def test_most_of_the_specs_are_accepted(folder: Path) -> None:
    """Otherwise the generator of specs would test nothing but messages."""
    verdicts = [judge(valid_spec(random.Random(f"accepted {number}")).encode(), folder) for number in range(100)]
    assert sum(verdict.files is not None for verdict in verdicts) > 40


def test_the_real_specs_pass(folder: Path) -> None:
    assert len(real_specs()) > 20
    for text in real_specs():
        assert judge(text.encode(), folder).files is not None


@pytest.mark.parametrize("case", found.ACCEPTED)
def test_found_and_accepted_now(folder: Path, case: str) -> None:
    verdict = judge(found.ACCEPTED[case].encode(), folder)
    assert verdict.files is not None, verdict.rules


@pytest.mark.parametrize("case", found.REFUSED)
def test_found_and_refused_now(folder: Path, case: str) -> None:
    rule, text = found.REFUSED[case]
    assert rule in judge(text.encode(), folder).rules


@pytest.mark.parametrize("char", ["\u200b", "\u202e", "\x1b", "\u2028", "\ufeff"])
def test_nothing_in_a_message_drives_a_terminal(char: str) -> None:
    span = Span(Source(f"a{char}.yaml", f"b{char}c\n"), 1, 1)
    shown = Diagnostic("HP103", span, f"d{char}", f"e{char}", (Note(span, f"f{char}"),)).render()
    assert all(other.isprintable() or other == "\n" for other in shown)


def found_batch(folder: Path, scratch: Path) -> Batch:
    """What is generated for the specs that were found and are accepted."""
    batch = Batch(folder)
    for number, text in enumerate(found.ACCEPTED.values()):
        renamed = text.replace("npu_found", f"npu_found_{number}").encode()
        verdict = judge(renamed, scratch)
        assert verdict.files is not None
        batch.add(verdict.op, renamed, verdict.files)
    return batch


def test_what_was_found_is_python_that_linters_like(tmp_path: Path, folder: Path) -> None:
    tool("ruff")
    tool("clang-format")
    batch = found_batch(tmp_path, folder)
    assert batch.python() == {}
    assert batch.formatting() == {}


def test_every_accepted_spec_is_an_operator_of_torch(tmp_path: Path, folder: Path) -> None:
    """The file imports, torch accepts the schema, and its arguments and defaults are those of the function."""
    pytest.importorskip("torch")
    batch = found_batch(tmp_path, folder)
    drawn = [valid_spec(random.Random(f"torch {number}")) for number in range(60)]
    for text in (*real_specs(), *drawn):
        verdict = judge(text.encode(), folder)
        if verdict.files is not None:
            batch.add(verdict.op, text.encode(), verdict.files)
    assert len(batch.specs) > 60
    assert batch.torch_operators() == {}


@pytest.mark.slow
@needs_compiler
def test_what_was_found_compiles(tmp_path: Path, folder: Path) -> None:
    assert found_batch(tmp_path, folder).cpp() == {}


def campaign(tmp_path: Path, examples: int, seed: int) -> Campaign:
    run = Campaign(seed, tmp_path / "scratch", tmp_path / "findings")
    for number in range(examples):
        run.run(number)
    run.finish_batch(compiled=True)
    return run


def test_a_short_campaign(tmp_path: Path) -> None:
    """The command line and ruff see some of the examples as well."""
    run = Campaign(1, tmp_path / "scratch", tmp_path / "findings")
    for number in range(120):
        run.run(number)
    run.finish_batch(compiled=False)
    assert dict(run.findings) == {}
    assert run.outcomes.total() == 120


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [11])
@needs_compiler
def test_a_campaign(tmp_path: Path, seed: int) -> None:
    """Some hundred examples, compiled as C++ too; `python -m tests.fuzz` makes longer ones."""
    assert dict(campaign(tmp_path, 600, seed).findings) == {}


def test_a_finding_is_kept_and_reduced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in the tool: it takes every spec that names float64 for a spec without a place."""
    import tests.fuzz.campaign as module

    def faulty(data: bytes, folder: Path) -> object:
        if b"float64" in data:
            raise Finding("faulty", "a fault")
        return judge(data, folder)

    monkeypatch.setattr(module, "judge", faulty)
    run = Campaign(3, tmp_path / "scratch", tmp_path / "findings", ("valid",), with_tools=False)
    for number in range(40):
        run.run(number)
    assert run.findings["faulty"] > 0
    reduced = (tmp_path / "findings" / "faulty_1_reduced.yaml").read_bytes()
    assert b"float64" in reduced
    assert len(reduced.splitlines()) <= 2


def test_the_command_of_the_guide(tmp_path: Path) -> None:
    """With fewer examples: it ends with 0 if it finds nothing, and says what it has seen."""
    (command,) = re.findall(r"^(python -m tests\.fuzz .*?)  +#", (ROOT / "docs" / "spec.md").read_text(), re.MULTILINE)
    words = command.replace("--examples 100000", "--examples 12").split()[1:]
    result = subprocess.run(
        [sys.executable, *words, "--save", str(tmp_path), "--no-tools"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "12 examples" in result.stdout

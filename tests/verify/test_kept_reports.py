# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What an earlier run has found is taken if nothing has changed that it depends on, and only then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hpgen.cache import Cache
from hpgen.library import load_library
from hpgen.verify import kept as kept_module
from hpgen.verify.kept import KeptReports
from hpgen.verify.report import OperatorReport
from hpgen.verify.task import Task

from .small_specs import WINDOW, small_spec, verify, write_small

FOUND = OperatorReport("npu_window", "specs/npu_window.yaml", 3, 0, 1, 0, 9, {"formats": ["BSD"]}, seconds=1.5)


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in the place of the runtime."""
    folder = tmp_path / "runtime"
    folder.mkdir()
    (folder / "dispatch.py").write_text("x = 1\n")
    monkeypatch.setattr(kept_module, "folder_of", lambda _: folder)
    return folder


def task(folder: Path) -> Task:
    write_small(folder, {"npu_window": small_spec("npu_window")}, {"window": WINDOW})
    library = load_library([folder / "specs"])
    return Task(library.specs[0], library.folder)


def changed_spec(one: Task, runtime: Path) -> Task:
    source = replace(one.spec.source, text=one.spec.source.text + "# a comment\n")
    return replace(one, spec=replace(one.spec, source=source))


def changed_reference(one: Task, runtime: Path) -> Task:
    (one.folder / "reference" / "other.py").write_text("y = 1\n")
    return one


def changed_runtime(one: Task, runtime: Path) -> Task:
    (runtime / "dispatch.py").write_text("x = 2\n")
    return one


CHANGES: list[Callable[[Task, Path], Task]] = [
    changed_spec,
    changed_reference,
    changed_runtime,
    lambda one, _: replace(one, seed=1),
    lambda one, _: replace(one, thorough=True),
    lambda one, _: replace(one, platform="torch", nproc=2),
]


def test_the_same_task_is_found(tmp_path: Path, runtime: Path) -> None:
    one = task(tmp_path)
    KeptReports(Cache(tmp_path / "cache")).keep(one, FOUND)
    found = KeptReports(Cache(tmp_path / "cache")).find(one)
    assert found == replace(FOUND, cached=True, spec=one.shown)
    assert KeptReports(Cache(None)).find(one) is None


def test_each_platform_and_number_of_processes_has_its_own(tmp_path: Path, runtime: Path) -> None:
    one, kept = task(tmp_path), KeptReports(Cache(tmp_path / "cache"))
    others = [replace(one, platform=platform, nproc=nproc) for platform in ("torch", "mindspore") for nproc in (2, 4)]
    assert len({kept.key(other) for other in (one, *others)}) == 5


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_not(tmp_path: Path, runtime: Path, change: Callable[[Task, Path], Task]) -> None:
    one = task(tmp_path)
    KeptReports(Cache(tmp_path / "cache")).keep(one, FOUND)
    changed = change(one, runtime)
    assert KeptReports(Cache(tmp_path / "cache")).find(changed) is None


@pytest.mark.parametrize("given", ["rule", "reference"])
def test_rules_and_references_from_elsewhere_are_not_kept(tmp_path: Path, runtime: Path, given: str) -> None:
    one = replace(task(tmp_path), **{given: "module:name"})
    kept = KeptReports(Cache(tmp_path / "cache"))
    kept.keep(one, FOUND)
    assert kept.find(one) is None


def test_code_that_changes_during_the_run_keeps_nothing(tmp_path: Path, runtime: Path) -> None:
    one = task(tmp_path)
    kept = KeptReports(Cache(tmp_path / "cache"))
    (runtime / "dispatch.py").write_text("x = 2\n")
    kept.confirm()
    kept.keep(one, FOUND)
    assert KeptReports(Cache(tmp_path / "cache")).find(one) is None


def test_a_run_says_what_it_has_not_run(tmp_path: Path) -> None:
    write_small(tmp_path, {"npu_window": small_spec("npu_window")}, {"window": WINDOW})

    def last_word(*options: str) -> str:
        return verify("specs/", *options, cwd=tmp_path).stdout.splitlines()[1].split()[-1]

    assert last_word() == "s"
    assert last_word() == "cached"
    assert last_word("--no-cache") == "s"

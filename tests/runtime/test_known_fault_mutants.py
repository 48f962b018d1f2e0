# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Each known fault, brought back in a copy of the runtime, is found by its test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from known_fault_mutants import MUTANTS, Mutant, table

from tests.mutants import with_mistake

HERE = Path(__file__).resolve().parent
CONFTEST = """
from pathlib import Path
import hyper_parallel

assert Path(hyper_parallel.__file__).parent == Path(__file__).parent / "hyper_parallel"
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package and of the tests."""
    folder = tmp_path_factory.mktemp("site")
    for package in ("hyper_parallel", "hyper_parallel.generated", "hyper_parallel.reference"):
        (source,) = import_module(package).__path__
        target = folder.joinpath(*package.split("."))
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    shutil.copy(HERE / "test_known_faults.py", folder)
    (folder / "conftest.py").write_text(CONFTEST)
    return folder


def failed_tests(site: Path, *only: str) -> set[str]:
    """The names of the tests of the copy that fail. Nothing else may go wrong."""
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-p", "no:cacheprovider", "--rootdir", str(site)]
    environment = {**os.environ, "HYPER_PARALLEL_PLATFORM": "numpy", "PYTHONPATH": str(site), "COLUMNS": "400"}
    ended = subprocess.run(
        [*command, *(f"test_known_faults.py::{name}" for name in only)],
        cwd=site,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    failures = [line.split("::")[1] for line in ended.stdout.splitlines() if line.startswith("FAILED ")]
    return {name.partition("[")[0].partition(" ")[0] for name in failures}


@pytest.mark.slow
def test_the_unchanged_copy_passes(site: Path) -> None:
    assert failed_tests(site) == set()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.fault}: {mutant.change}")
def test_the_fault_is_found(mutant: Mutant, site: Path) -> None:
    path = site / "hyper_parallel" / mutant.file
    text = path.read_text()
    mistaken = with_mistake(text, mutant.old, mutant.new)
    try:
        path.write_text(mistaken)
        assert failed_tests(site, mutant.test) == {mutant.test}
    finally:
        path.write_text(text)


def test_the_table_in_the_docs_is_this_one() -> None:
    assert table() in (HERE.parents[1] / "docs" / "mutations.md").read_text()

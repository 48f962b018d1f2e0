# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every fault of the table is found, by what the table says."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.ascend.fault_table import FAULTS, By, Fault, Where
from tests.ascend.faulty_library import ROOT, library_of, source_of
from tests.ascend.toolkit import environment, toolkit
from tests.sanitizers.sanitized import output_of, python

sys.path.insert(0, str(ROOT / "tests" / "cpp"))
from recorder import compile_object

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
RUN = tuple(
    number
    for number, fault in enumerate(FAULTS)
    if fault.by not in (By.PROTOTYPE, By.SANITIZER) and fault.where is not Where.HEADER
)
NAMES = [fault.what.replace(" ", "-") for fault in FAULTS]


def numbered(*, of: set[By], header: bool = False) -> Any:
    chosen = [n for n, fault in enumerate(FAULTS) if fault.by in of and (fault.where is Where.HEADER) == header]
    assert chosen
    return pytest.mark.parametrize("number", chosen, ids=[NAMES[n] for n in chosen])


def run(library: Path, number: int, variables: dict[str, str] | None = None) -> Any:
    arguments = ("-m", "tests.ascend.faulty_library", library, str(number))
    found = json.loads(output_of(*arguments, environment=variables or dict(os.environ)).splitlines()[-1])
    assert found["calls"] > 1
    return found


@numbered(of={By.PROTOTYPE})
def test_calls_that_do_not_compile(number: int, tmp_path: Path) -> None:
    fault = FAULTS[number]
    source = tmp_path / "fault.cc"
    source.write_text(source_of(fault, tmp_path))
    said = compile_object(source, [ROOT, toolkit().headers / "include"])
    assert "should get the arguments of its prototype" in said
    assert fault.says in said


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The faults that compile, in one module."""
    built: Path = library_of(RUN, tmp_path_factory.mktemp("faults")).build()
    return built


@numbered(of={By.KERNEL, By.NUMBERS, By.FRAMEWORK})
def test_calls_that_run(number: int, library: Path) -> None:
    check(FAULTS[number], run(library, number))


@numbered(of={By.KERNEL}, header=True)
def test_the_header(number: int, tmp_path: Path) -> None:
    check(FAULTS[number], run(library_of([number], tmp_path, header=FAULTS[number]).build(), number))


def check(fault: Fault, found: dict[str, Any]) -> None:
    if fault.by is By.NUMBERS:
        assert fault.says in found["wrong"]
        assert found["faults"] == []
        assert "error" not in found
    else:
        assert "error" in found
        assert any(fault.says in said for said in [*found["faults"], found["error"]])
        assert bool(found["faults"]) == (fault.by is By.KERNEL)


@numbered(of={By.SANITIZER})
def test_memory_that_is_freed_too_early(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = environment(with_sanitizers=True)
    monkeypatch.setenv("HYPER_PARALLEL_CXXFLAGS", variables["HYPER_PARALLEL_CXXFLAGS"])
    built = library_of([number], tmp_path).build()
    done = python("-m", "tests.ascend.faulty_library", built, str(number), environment=variables)
    assert done.returncode != 0
    assert FAULTS[number].says in done.stdout


def test_each_way_has_one() -> None:
    assert {fault.by for fault in FAULTS} == set(By)
    assert {fault.where for fault in FAULTS} == set(Where)

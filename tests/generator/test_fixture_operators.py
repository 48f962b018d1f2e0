# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The fixture operators run: every file of tests/fixtures/runs/ against a copy of the package that has them."""

from __future__ import annotations

import re

import pytest

from tests.fixtures.library import RUNS, SPECS, fixture_library

FILES = sorted(path.name for path in RUNS.glob("run_*.py"))
PLATFORM = {"run_on_torch.py": "torch", "run_torch_library.py": "torch"}


@pytest.mark.parametrize("name", FILES)
def test_run(name: str) -> None:
    if PLATFORM.get(name) == "torch":
        pytest.importorskip("torch")
    done = fixture_library().pytest(name, PLATFORM.get(name, "numpy"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d+ passed", done.stdout), "some test must have run"


def test_every_fixture_operator_is_run() -> None:
    texts = "".join((RUNS / name).read_text() for name in FILES)
    assert [path.stem for path in SPECS.glob("*.yaml") if f'"{path.stem}"' not in texts] == []

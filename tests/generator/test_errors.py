# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every diagnostic, as it is printed: a folder of tests/errors/ holds specs with a mistake and the exact message.

Adding a case is adding a folder. `python -m tests.generator.test_errors [case...]` writes the messages anew.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from hpgen.cli import main
from hpgen.rules import RULES

from . import errors_page
from .spec_texts import ROOT

CASES = ROOT / "tests" / "errors"
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())


def message(case: str, folder: Path) -> tuple[int, str]:
    """Exit code and standard error of `hpgen ops specs/` on a case's files, in a folder of its own."""
    shutil.copytree(CASES / case, folder / "specs", ignore=shutil.ignore_patterns("stderr.txt"))
    with contextlib.chdir(folder) if sys.version_info >= (3, 11) else _chdir(folder):
        result = CliRunner().invoke(main, ["ops", "specs/"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert not (folder / "generated").exists(), "nothing may be written"
    return result.exit_code, result.stderr


@contextlib.contextmanager
def _chdir(folder: Path):  # type: ignore[no-untyped-def]
    import os

    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.mark.parametrize("case", NAMES)
def test_the_message_is_the_one_in_the_folder(case: str, tmp_path: Path) -> None:
    code, stderr = message(case, tmp_path)
    assert stderr == (CASES / case / "stderr.txt").read_text()
    assert code == 1


def test_there_is_a_case_for_every_id() -> None:
    shown = {
        name for case in NAMES for name in re.findall(r"error\[(HP\d{3})\]", (CASES / case / "stderr.txt").read_text())
    }
    assert shown == set(RULES)


def test_the_page_of_mistakes_shows_what_is_printed() -> None:
    assert errors_page.PAGE.read_text() == errors_page.page()


def update(cases: list[str]) -> None:
    for case in cases or NAMES:
        with tempfile.TemporaryDirectory() as folder:
            _, stderr = message(case, Path(folder))
        (CASES / case / "stderr.txt").write_text(stderr)


if __name__ == "__main__":
    update(sys.argv[1:])

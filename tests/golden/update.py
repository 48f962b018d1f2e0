# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Rewrites the expected trees of the golden cases: python tests/golden/update.py [case...]"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from hpgen.diagnostics import SpecError
from hpgen.library import load_library
from hpgen.plan import derive_library
from hpgen.render import render_library

GOLDEN = Path(__file__).resolve().parent


def case_folders() -> list[Path]:
    """Every folder with specs; its name is the case's."""
    return sorted(folder.parent for folder in GOLDEN.glob("*/specs"))


def generated(case: Path) -> dict[str, bytes]:
    """What a case's specs give, by the path below the output folder.

    Raises:
        SpecError: If a spec is wrong.
    """
    library = load_library([case / "specs"])
    files = render_library(derive_library(library.specs, library.shown))
    return {path.as_posix(): text.encode() for path, text in files.items()}


def expected(case: Path) -> dict[str, bytes]:
    """The committed tree of a case."""
    root = case / "expected"
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def update(case: Path) -> bool:
    """Rewrite a case's expected tree; whether anything changed."""
    files = generated(case)
    if files == expected(case):
        return False
    shutil.rmtree(case / "expected", ignore_errors=True)
    for path, data in files.items():
        target = case / "expected" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return True


def main(names: list[str]) -> int:
    """Update the named cases, or all; 1 if a name is none or a spec is wrong."""
    unknown = [name for name in names if not (GOLDEN / name / "specs").is_dir()]
    if unknown:
        print(f"no such case: {', '.join(unknown)}; a case is a folder tests/golden/<case>/specs/", file=sys.stderr)
        return 1
    wrong = 0
    for case in [GOLDEN / name for name in names] or case_folders():
        try:
            if update(case):
                print(f"rewritten: {case.name}")
        except SpecError as error:
            print(error, file=sys.stderr)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of generated files by tools that are slow to start, on many operators at once."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from hpgen.spec.names import camel_case

ROOT = Path(__file__).resolve().parents[2]
RECORDING = ROOT / "tests" / "cpp" / "recording"
COMPILER = ["g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-fmax-errors=40"]


@dataclass
class Batch:
    """Generated operators below a folder, with the texts of the specs they are from."""

    folder: Path
    specs: dict[str, bytes] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)

    def add(self, op: str, text: bytes, files: Mapping[PurePosixPath, str]) -> None:
        """Write the files; an operator that would have the class name of another is left out."""
        if camel_case(op) in self.classes:
            return
        self.classes.add(camel_case(op))
        self.specs[op] = text
        for path, content in files.items():
            target = self.folder / "generated" / op / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, encoding="utf-8")

    def complaints(self, output: str) -> dict[str, list[str]]:
        """The lines of a tool's output by the operator whose file they speak of."""
        found: dict[str, list[str]] = {}
        for line in output.splitlines():
            match = re.search(r"generated/([a-z0-9_]+)/", line)
            if match and match.group(1) in self.specs:
                found.setdefault(match.group(1), []).append(line)
        return found

    def python(self) -> dict[str, list[str]]:
        """What ruff finds: names that resolve to nothing, imports and variables that nobody uses."""
        return self.complaints(
            run(
                [
                    tool("ruff"),
                    "check",
                    "--no-cache",
                    "--isolated",
                    "--select",
                    "F,E9,PLE",
                    "--output-format",
                    "concise",
                    "generated",
                ],
                self.folder,
            )
        )

    def formatting(self) -> dict[str, list[str]]:
        """The files that ruff or clang-format would lay out otherwise."""
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        shutil.copy(ROOT / ".clang-format", self.folder)
        found = run([tool("ruff"), "format", "--no-cache", "--check", "generated"], self.folder)
        sources = [str(path) for path in sorted((self.folder / "generated").rglob("*.cc"))]
        if sources:
            found += run([tool("clang-format"), "--dry-run", "-Werror", *sources], self.folder)
        return self.complaints(found)

    def torch_operators(self) -> dict[str, list[str]]:
        """What is wrong with the torch.library operators, defined in a process of their own."""
        command = [sys.executable, "-m", "tests.fuzz.torch_operators", str(self.folder), *self.specs]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return self.complaints(done.stdout)

    def cpp(self) -> dict[str, list[str]]:
        """What g++ says about every operator in one translation unit, against the recording stand-in for MindSpore."""
        unit = self.folder / "unit.cc"
        sources = sorted((self.folder / "generated").rglob("*.cc"))
        unit.write_text("".join(f'#include "{path}"\n' for path in sources))
        defines = ["-DMS_EXTENSION_NAME=fuzzed", "-DCUSTOM_ASCEND_OP"]
        output = run([*COMPILER, *defines, f"-I{RECORDING}", f"-I{ROOT}", str(unit)], self.folder)
        return self.complaints("\n".join(line for line in output.splitlines() if "error:" in line))


def run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def tool(name: str) -> str:
    """The path of a tool, beside this interpreter or anywhere; its name if there is none."""
    return shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name) or name


def missing(names: Iterable[str]) -> list[str]:
    """The tools that are not installed."""
    return [name for name in names if shutil.which(tool(name)) is None]

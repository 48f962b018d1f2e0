# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of the README and of docs/kernels.md that compile: found compiled, or run on a small library."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.generator.spec_texts import hpgen

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = {("--again",), ("--clean",)}  # tests/native/test_build_command.py


def test_the_commands_run() -> None:
    pages = "\n".join((ROOT / page).read_text() for page in ("README.md", "docs/kernels.md"))
    blocks = re.findall(r"^```sh\n(.*?)^```", pages, flags=re.DOTALL | re.MULTILINE)
    lines = [shlex.split(line, comments=True) for block in blocks for line in block.splitlines()]
    commands = {tuple(words[2:]) for words in lines if words[:2] == ["hpgen", "build"]}
    assert commands > ELSEWHERE
    for options in commands - ELSEWHERE:
        result = hpgen("build", *options, cwd=ROOT)
        assert (result.returncode, result.stderr) == (0, ""), options
        assert "host: 7 operators of The built-in operator library, up to date: " in result.stdout

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Many examples one after another; what was found is kept, once for each kind of fault."""

from __future__ import annotations

import random
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from . import command_line
from .batch import Batch, missing
from .broken_specs import broken_spec
from .judge import Finding, Verdict, judge
from .valid_specs import valid_spec

PATIENCE = 30  # seconds of waiting for one example
IN_PROCESS_EVERY = 20
OWN_PROCESS_EVERY = 1000
BATCH = 400
COMPILED_EVERY = 10  # batches
MOST_REDUCTIONS = 300


@dataclass
class Campaign:
    """Runs examples in a scratch folder; `save` is where specs with findings go."""

    seed: int
    scratch: Path
    save: Path
    kinds: tuple[str, ...] = ("valid", "broken")
    with_tools: bool = True
    with_layout: bool = False  # whether ruff and clang-format would leave every line as it is
    outcomes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    findings: Counter[str] = field(default_factory=Counter)
    batches: int = 0

    def __post_init__(self) -> None:
        self.batch = self.new_batch()

    def example(self, number: int) -> bytes:
        """The spec of a number: the same in every run with this seed."""
        draw = random.Random(f"{self.seed}:{number}")
        if self.kinds[number % len(self.kinds)] == "broken":
            return broken_spec(draw)
        return valid_spec(draw).encode()

    def run(self, number: int) -> None:
        data = self.example(number)
        kind = self.kinds[number % len(self.kinds)]
        try:
            with patience(PATIENCE):
                verdict = judge(data, self.scratch)
                self.through_the_command(number, verdict)
        except Finding as finding:
            self.outcomes[f"{kind}, finding"] += 1
            self.keep(finding, data, number)
            return
        self.outcomes[f"{kind}, {'accepted' if verdict.files is not None else 'refused'}"] += 1
        self.rules.update(set(verdict.rules))
        if verdict.files is not None and self.with_tools:
            self.batch.add(verdict.op, data, verdict.files)
            if len(self.batch.specs) >= BATCH:
                self.finish_batch()

    def through_the_command(self, number: int, verdict: Verdict) -> None:
        if number % IN_PROCESS_EVERY == 0:
            command_line.in_process(self.scratch, verdict)
        if number % OWN_PROCESS_EVERY == 0:
            command_line.in_its_own(self.scratch, verdict)

    def new_batch(self) -> Batch:
        shutil.rmtree(self.scratch / "batch", ignore_errors=True)
        folder = self.scratch / "batch"
        folder.mkdir(parents=True)
        return Batch(folder)

    def finish_batch(self, compiled: bool | None = None) -> None:
        """Check what has been generated with ruff and, for some batches, torch and g++."""
        if not self.batch.specs:
            return
        compiled = self.batches % COMPILED_EVERY == 0 if compiled is None else compiled
        checks: list[Callable[[], dict[str, list[str]]]] = [] if missing(["ruff"]) else [self.batch.python]
        checks += [self.batch.formatting] if self.with_layout and not missing(["ruff", "clang-format"]) else []
        checks += [self.batch.torch_operators] if compiled and find_spec("torch") else []
        checks += [self.batch.cpp] if compiled and not missing(["g++"]) else []
        for check in checks:
            for op, lines in check().items():
                what = re.sub(r"['`\u2018].*?['`\u2019]|\d+|/\S+", "_", lines[0].rsplit(op, 1)[-1])
                self.keep(Finding(f"{check.__name__}: {what}", "\n".join(lines)), self.batch.specs[op], -1)
        self.batches += 1
        self.batch = self.new_batch()

    def keep(self, finding: Finding, data: bytes, number: int) -> None:
        """Save a spec with what was found; the first one of a kind with as few lines as show it."""
        first = not self.findings[finding.signature]
        self.findings[finding.signature] += 1
        if self.findings[finding.signature] > 3:
            return
        self.save.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9]+", "_", finding.signature)[:80] + f"_{self.findings[finding.signature]}"
        (self.save / f"{name}.yaml").write_bytes(data)
        note = f"seed {self.seed}, example {number}\n{finding.signature}\n\n{finding.detail}\n"
        (self.save / f"{name}.txt").write_text(note, encoding="utf-8", errors="backslashreplace")
        if first and number >= 0:
            (self.save / f"{name}_reduced.yaml").write_bytes(self.reduced(data, finding.signature))

    def reduced(self, data: bytes, signature: str) -> bytes:
        """The spec without the lines that the finding does not need."""
        lines, size = data.split(b"\n"), max(1, data.count(b"\n") // 2)
        tries = 0
        while size and tries < MOST_REDUCTIONS:
            start = 0
            while start < len(lines) and tries < MOST_REDUCTIONS:
                fewer = lines[:start] + lines[start + size :]
                tries += 1
                if self.signature(b"\n".join(fewer)) == signature:
                    lines = fewer
                else:
                    start += size
            size //= 2
        return b"\n".join(lines)

    def signature(self, data: bytes) -> str:
        try:
            with patience(PATIENCE):
                judge(data, self.scratch)
        except Finding as finding:
            return finding.signature
        return ""


@contextmanager
def patience(seconds: int) -> Iterator[None]:
    """End what takes longer with a finding."""

    def ring(*_: object) -> None:
        raise Finding("hangs", f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)

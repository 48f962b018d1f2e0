# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What must hold of the tool for any spec: a message at a place in the file, or output that parses."""

from __future__ import annotations

import ast
import json
import re
import time
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import yaml

from hpgen.diagnostics import Source, Span, SpecError
from hpgen.library import load_library
from hpgen.plan import derive_operator
from hpgen.plan.derive import derive_library
from hpgen.render import render_library, render_operator
from hpgen.rules import RULES
from hpgen.spec.check import check_spec
from hpgen.spec.load import load_spec
from hpgen.spec.model import Spec
from hpgen.spec.unparse import unparse

MOST_SECONDS = 2.0
MOST_SHOWN = 1_000_000
INDEX = {"__init__.py", "build.json", "platform_mindspore.py", "platform_torch.py", "platform_numpy.py"}
OP = re.compile(r"(?:^|[{,])\s*['\"]?op['\"]?\s*:\s*['\"]?([A-Za-z0-9_]+)", re.MULTILINE)


class Finding(Exception):
    """The tool did what it must not do. `signature` is the same for the same fault."""

    def __init__(self, signature: str, detail: str) -> None:
        super().__init__(f"{signature}\n{detail}")
        self.signature = signature
        self.detail = detail


@dataclass(frozen=True)
class Verdict:
    """`rules` are the ids of the diagnostics if the spec was refused; `files` what was generated if not."""

    rules: tuple[str, ...] = ()
    files: Mapping[PurePosixPath, str] | None = None
    op: str = ""


def file_name(data: bytes) -> str:
    """The name that a spec's file should have, so that a wrong name is not all that is ever found."""
    match = OP.search(data.decode("utf-8", errors="replace"))
    return f"{match.group(1)[:100] if match else 'npu_fuzz'}.yaml"


def judge(data: bytes, folder: Path) -> Verdict:
    """Put the spec alone into folder/specs and read it.

    Raises:
        Finding: For a traceback, a message at no place, output that does not parse, or more time than allowed.
    """
    specs = folder / "specs"
    specs.mkdir(exist_ok=True)
    for old in specs.iterdir():
        old.unlink()
    (specs / file_name(data)).write_bytes(data)
    started = time.process_time()
    try:
        verdict = read(specs)
    except Finding:
        raise
    except Exception as error:
        raise Finding(place_of(error), traceback.format_exc(limit=-12)) from error
    seconds = time.process_time() - started
    if seconds > MOST_SECONDS:
        raise Finding("slow", f"{seconds:.1f} s of computing")
    return verdict


def place_of(error: BaseException) -> str:
    """An exception's type and the last place of the tool that it went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/tests/" not in frame.filename]
    own = [frame for frame in frames if "/codegen/" in frame.filename or "/hpgen/" in frame.filename] or frames
    return f"{type(error).__name__} in {Path(own[-1].filename).name}:{own[-1].name}" if own else type(error).__name__


def read(specs: Path) -> Verdict:
    try:
        library = load_library([specs])
    except SpecError as error:
        check_diagnostics(error, specs)
        return Verdict(rules=tuple(item.rule for item in error.diagnostics))
    files = render_library(derive_library(library.specs, library.shown))
    (spec,) = library.specs
    check_paths(files, spec.op)
    for path, text in files.items():
        check_text(path, text)
    check_printing(spec, f"{library.shown}/{spec.op}.yaml", files)
    return Verdict(files=files, op=spec.op)


def check_diagnostics(error: SpecError, specs: Path) -> None:
    """Every message has a known id, says something, and is about a place that the file has."""
    shown = 0
    for diagnostic in error.diagnostics:
        if diagnostic.rule not in RULES or not diagnostic.message.strip():
            raise Finding("a diagnostic without id or message", repr(diagnostic))
        for span in (diagnostic.span, *(note.span for note in diagnostic.notes)):
            check_span(span, specs, diagnostic.rule)
        rendered = diagnostic.render()
        shown += len(rendered)
        check_printable(rendered)
    if not error.diagnostics:
        raise Finding("refused without a message", "")
    if shown > MOST_SHOWN:
        raise Finding("too much to say", f"{shown} characters in {len(error.diagnostics)} messages")


def check_span(span: Span, specs: Path, rule: str) -> None:
    if not span.source.path.startswith(str(specs)):
        raise Finding(f"{rule} is about another file", span.source.path)
    if span.line == 0:
        return
    lines = span.source.text.split("\n")
    # The end of the file, behind its last line break, is a place as well.
    if not 1 <= span.line <= len(lines) or not 1 <= span.column <= len(lines[span.line - 1]) + 1:
        raise Finding(f"{rule} is at no place of the file", f"{span} of {len(lines)} lines")
    if span.length < 1:
        raise Finding(f"{rule} has no length", str(span))


def check_printable(rendered: str) -> None:
    wrong = next((char for char in rendered if not char.isprintable() and char not in "\n\t"), None)
    if wrong is not None and not wrong.isspace():
        raise Finding("a message holds a control character", f"U+{ord(wrong):04X} in {rendered[:2000]!r}")
    rendered.encode()


def check_paths(files: Mapping[PurePosixPath, str], op: str) -> None:
    for path in files:
        if path.is_absolute() or ".." in path.parts or not (path.parts[0] == op or str(path) in INDEX):
            raise Finding("a path outside the operator's folder", str(path))


def check_text(path: PurePosixPath, text: str) -> None:
    """A generated file is UTF-8, without control characters, and parses as what its name says."""
    try:
        text.encode()
        if path.suffix == ".py":
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # such as an escape that Python does not know
                compile(ast.parse(text, feature_version=(3, 10)), str(path), "exec")
        elif path.suffix == ".yaml":
            yaml.safe_load(text)
        elif path.suffix == ".json":
            json.loads(text)
    except (SyntaxError, ValueError, yaml.YAMLError, Warning) as error:
        raise Finding(
            f"{path.name.split('_', 1)[0]}{path.suffix} does not parse: {type(error).__name__}", f"{error}\n\n{text}"
        ) from error
    wrong = next((char for char in text if char != "\n" and not char.isprintable()), None)
    if wrong is not None:
        raise Finding(f"a {path.suffix} file holds a control character", f"U+{ord(wrong):04X} in {path}")


def check_printing(spec: Spec, path: str, files: Mapping[PurePosixPath, str]) -> None:
    """Printing the model as YAML and reading that gives the same model and the same bytes."""
    text = unparse(spec)
    try:
        again = load_spec(Source("printed.yaml", text))
        check_spec(again)
    except SpecError as error:
        raise Finding(f"printed, it is refused: {error.diagnostics[0].rule}", f"{error}\n\n{text}") from error
    if again != spec:
        names = [key for key in vars(spec) if getattr(spec, key) != getattr(again, key) and key not in ("source",)]
        differ = "\n".join(f"{key}\n  {getattr(spec, key)!r}\n  {getattr(again, key)!r}" for key in names[:3])
        raise Finding("printed and read again, it is another model", f"{differ}\n\n{text}")
    if any(files[name] != text for name, text in render_operator(derive_operator(again, path)).files.items()):
        raise Finding("printed and read again, it gives other files", text)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From a folder of specs to the files of its library in memory.

An operator's own files follow from its spec alone. So they are rendered side by side in several processes, and what an
earlier run has rendered from the same text is taken from the cache. The specs meet where names must differ, and in the
files that speak of all operators.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from .artifacts import Files, IndexedOperator, RenderedOperator
from .cache import Cache
from .diagnostics import Diagnostic, Findings
from .progress import Track
from .spec.names import natural
from .spec_folder import SpecFile, SpecFolder
from .workers import spread

Result = RenderedOperator | tuple[Diagnostic, ...]
"""What a file gives: an operator, or what is wrong with it."""


def generate(folder: SpecFolder, cache: Cache, track: Track, jobs: int) -> Files:
    """Every file of the library, by its path in the output folder. `jobs` is the most processes that are used.

    Raises:
        SpecError: With the findings of every file.
        WorkerError: If a process was killed.
    """
    keys = [cache.key(folder.shown, file.path.name, file.source.text) for file in folder.files]
    results = render_all(folder, keys, cache, track, jobs)
    operators = [result for result in results if isinstance(result, RenderedOperator)]
    findings = Findings()
    for diagnostic in (*(item for result in results if isinstance(result, tuple) for item in result), *folder.misnamed):
        findings.keep(diagnostic)
    clashing = clashes([operator.index for operator in operators])
    if clashing:
        report_clashes([file for file in folder.files if file.path.stem in clashing], findings)
    findings.raise_if_any()
    files = {path: text for operator in operators for path, text in operator.files.items()}
    return files | index(folder.shown, [operator.index for operator in operators], cache, cache.key("index", *keys))


def render_all(folder: SpecFolder, keys: Sequence[str], cache: Cache, track: Track, jobs: int) -> list[Result]:
    known = [cache.load(key) for key in keys]
    results: list[Result | None] = [RenderedOperator.from_json(value) if value else None for value in known]
    missing = [number for number, value in enumerate(known) if not value]
    if missing:
        # Imported here: a run that finds everything in the cache needs none of it, and the processes share it.
        from .render import load_templates
        from .render_file import render_file

        load_templates(cache)
        cache.confirm()
        render = functools.partial(render_file, shown=folder.shown, cache=cache)
        rendered = spread(render, [(folder.files[number], keys[number]) for number in missing], jobs)
        for number, result in track(rendered, "rendering operators", len(missing)):
            results[missing[number]] = result
        cache.prune()
    return [result for result in results if result is not None]


def clashes(operators: Iterable[IndexedOperator]) -> set[str]:
    """The operators that have a name, or a class, which another has too."""
    owners: dict[str, str] = {}
    found: set[str] = set()
    for operator in operators:
        for name in (*operator.names, operator.class_name):
            owner = owners.setdefault(name, operator.op)
            if owner != operator.op:
                found |= {owner, operator.op}
    return found


def report_clashes(files: Iterable[SpecFile], findings: Findings) -> None:
    """Add a finding for each name of two operators, with the places in the specs, which the cache has not."""
    from .library import check_unique, checked_spec

    check_unique([checked_spec(file) for file in files], findings)


def index(shown: str, operators: Iterable[IndexedOperator], cache: Cache, key: str) -> Files:
    """The files that speak of all operators."""
    known = cache.load(key)
    if known:
        return {PurePosixPath(path): text for path, text in known.items()}
    from .render import keep_templates, render_index

    keep_templates(cache)
    files = render_index(shown, sorted(operators, key=lambda operator: natural(operator.op)))
    cache.store(key, {str(path): text for path, text in files.items()})
    return files

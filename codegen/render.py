# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From the plan to files in memory."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import jinja2

from . import package
from .artifacts import (
    BUILD_FORMAT,
    KERNEL_FILES,
    PLATFORMS,
    RULE_FILES,
    Files,
    IndexedOperator,
    RenderedOperator,
    header,
)
from .cache import Cache
from .text import python_code as code
from .text import torch_code
from .text.docstring import comment_lines, docstring, prose

if TYPE_CHECKING:
    from jinja2.bccache import Bucket

    from .plan import LibraryPlan, OperatorPlan


@functools.cache
def environment() -> jinja2.Environment:
    """The templates; a name that the plan does not have is an error, never an empty string."""
    folder = package.templates()
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # source code, not HTML: each filter escapes for its language
    )
    found.filters["prose"] = lambda text, indent, hanging=0: "\n".join(prose(text, indent, hanging))
    found.filters["chomp"] = lambda text: text.removesuffix("\n")
    found.filters["comment_lines"] = comment_lines
    found.filters["docstring"] = docstring
    found.globals |= {piece.__name__: piece for piece in (*code.PIECES, *torch_code.PIECES)}
    return found


class CompiledTemplates(jinja2.BytecodeCache):
    """Templates as Python code, kept like everything else."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

    def load_bytecode(self, bucket: Bucket) -> None:
        code = self.cache.load_bytes(self.cache.key(bucket.key, bucket.checksum))
        if code:
            bucket.bytecode_from_string(code)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.cache.store_bytes(self.cache.key(bucket.key, bucket.checksum), bucket.bytecode_to_string())


def keep_templates(cache: Cache) -> None:
    """Let templates that are compiled from now on be kept in the cache."""
    environment().bytecode_cache = CompiledTemplates(cache)


def load_templates(cache: Cache) -> None:
    """Compile every template now rather than at its first use."""
    keep_templates(cache)
    for path in package.templates().glob("*.j2"):
        environment().get_template(path.name)


def render_library(library: LibraryPlan) -> Files:
    """Every file of the library, by its path in the output folder."""
    operators = [render_operator(op) for op in library.operators]
    files = {path: text for operator in operators for path, text in operator.files.items()}
    return files | render_index(library.specs_path, [operator.index for operator in operators])


def render_operator(op: OperatorPlan) -> RenderedOperator:
    mark = header(op.spec_path)
    templates = RULE_FILES | (KERNEL_FILES if op.has_kernel else {})
    files = {
        PurePosixPath(path.format(op=op.op)): render(template, header=mark, op=op)
        for path, template in templates.items()
    }
    functions = op.cpp.functions if op.cpp else ()
    index = IndexedOperator(
        op=op.op,
        names=tuple(dict.fromkeys([*op.names, *(function.name for function in functions)])),
        class_name=op.class_name,
        has_kernel=op.has_kernel,
        types=code.types_used(op.parameters),
        returns_any=op.conditional[0] != "",
        entry_point=render("entry_point.py.j2", op=op) if op.has_kernel else "",
        refusal=render("refusal.py.j2", op=op) if op.torch_delegate else "",
        build=build_entry(op, files),
    )
    return RenderedOperator(files, index)


def build_entry(op: OperatorPlan, files: Files) -> dict[str, Any] | None:
    """What the loader of kernels needs: the source with its content hash, and the references."""
    if not op.cpp:
        return None
    source = f"{op.op}/{op.op}.cc"
    digest = hashlib.sha256(files[PurePosixPath(source)].encode()).hexdigest()
    entry: dict[str, Any] = {
        "spec": op.spec_path,
        "dfunction": f"{op.class_name}DFunction",
        "reference": str(op.reference),
        "outputs": len(op.kernel_outputs),
        "sources": {source: f"sha256:{digest}"},
        "cpu_headers": [op.cpp.cpu_header] if op.cpp.cpu_header else [],
    }
    if op.backward_reference:
        entry["backward_reference"] = str(op.backward_reference)
    if op.backward_reference and op.backward:
        entry["gradients"] = len(op.backward.produced)
    if op.sample:
        entry["sample"] = str(op.sample)
    return entry


def render_index(specs_path: str, operators: Sequence[IndexedOperator]) -> Files:
    """The files that speak of all operators; `operators` are ordered by name."""
    source = header(f"{specs_path}/")
    kernels = [op for op in operators if op.has_kernel]
    index = {PurePosixPath("__init__.py"): render("init.py.j2", header=source, operators=kernels)}
    for platform in PLATFORMS:
        text = render("platform.py.j2", header=source, operators=kernels, platform=platform)
        index[PurePosixPath(f"platform_{platform.name}.py")] = text
    built = {op.op: op.build for op in operators if op.build}
    text = json.dumps({"_generated": source, "format": BUILD_FORMAT, "operators": built}, indent=2)
    return index | {PurePosixPath("build.json"): text + "\n"}


def render(template: str, **values: Any) -> str:
    return environment().get_template(template).render(values)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The whole way of one spec: from its text to its operator's files."""

from __future__ import annotations

from .artifacts import RenderedOperator
from .cache import Cache
from .diagnostics import Diagnostic, SpecError
from .library import checked_spec
from .plan import derive_operator
from .render import render_operator
from .spec_folder import SpecFile


def render_file(item: tuple[SpecFile, str], shown: str, cache: Cache) -> RenderedOperator | tuple[Diagnostic, ...]:
    """The operator of a file, or what is wrong with it; what was rendered is kept under the key beside the file."""
    file, key = item
    try:
        spec = checked_spec(file)
    except SpecError as error:
        return error.diagnostics
    operator = render_operator(derive_operator(spec, f"{shown}/{spec.op}.yaml"))
    cache.store(key, operator.as_json())
    return operator

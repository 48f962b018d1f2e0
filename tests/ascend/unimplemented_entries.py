# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Entries of CANN that MindSpore's libraries are linked with and that nothing here calls for a result.

They are loaded with MindSpore's Ascend backend, which would fail for a single name that is missing. Most belong to the
graph engine, which operators outside of graphs do not use; what registers itself there when it is loaded may do so.
"""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

LIBRARIES = ("libmindspore_ascend.so.2", "libmindspore_ops_ascend.so", "ascend/*.so", "ascend/**/lib/*.so")
# No kernels: a call of one that is missing has to fail.
OF_CANN = re.compile(r"acl(?!nn)[a-z]*[A-Z]|Hccl[A-Z]|hal[A-Z]|rt[A-Z]|_ZNK?2ge")


def mindspore_folder() -> Path:
    """Where MindSpore is installed."""
    spec = find_spec("mindspore")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def undefined_entries() -> list[str]:
    """The symbols of CANN that MindSpore's Ascend libraries want, in order."""
    plugin = mindspore_folder() / "lib" / "plugin"
    libraries = sorted({path for pattern in LIBRARIES for path in plugin.glob(pattern)})
    command = ["nm", "--dynamic", "--undefined-only", "--no-demangle", "--format=just-symbols", *map(str, libraries)]
    # Libraries of other projects among them have no symbols; nm says so and goes on.
    said = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    names = {line.split("@")[0] for line in said.split()}
    return sorted(name for name in names if OF_CANN.match(name))


def assembly() -> str:
    """A function for each, which returns 0; where there is another one of that name, that one is taken."""
    lines = ['.section .note.GNU-stack,"",%progbits', ".text"]
    for name in undefined_entries():
        lines += [f".weak {name}", f".type {name}, %function", f"{name}:", "  xor %eax, %eax", "  ret"]
    return "\n".join(lines) + "\n"

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The table of documented prototypes (csrc/fake_cann/prototypes.h) is what the docs show, and owes the specs nothing.

That the calls in generated code agree with it is tested by the compiler (test_aclnn_prototypes.py).
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

from aclnn_headers import PROTOTYPES

from tests.ascend.faulty_library import table

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "ascend.md").read_text()
SHORT = {
    "const aclTensor*": "T",
    "const aclIntArray*": "A",
    "char*": "string",
    "int64_t": "int64",
    "int32_t": "int32",
    "double": "double",
    "bool": "bool",
}
READERS = ("tests/ascend/toolkit.py", "tests/cpp/aclnn_headers.py")


def test_the_page_shows_the_table() -> None:
    for kernel, parameters in PROTOTYPES.items():
        pairs = (parameter.rsplit(" ", 1) for parameter in parameters.split(", "))
        shown = ", ".join(f"{SHORT[kind]} {name}" for kind, name in pairs)
        assert f"| `{kernel}` | {shown} |" in PAGE
    assert len(re.findall(r"^\| `aclnn\w+` \|", PAGE, flags=re.MULTILINE)) == len(PROTOTYPES)


def test_the_page_shows_the_faults() -> None:
    assert table() in PAGE


def test_the_fake_reads_nothing_that_is_generated() -> None:
    """Its sources include each other, the kernels for the CPU and the public headers."""
    for path in (ROOT / "csrc" / "fake_cann").iterdir():
        own = re.findall(r'^#include "(\S+)"', path.read_text(), flags=re.MULTILINE)
        assert all(name.startswith(("csrc/fake_cann/", "csrc/cpu/", "acl/", "hccl/")) for name in own), path
    for path in (ROOT / "csrc" / "cpu").iterdir():
        assert "generated" not in path.read_text(), path


def test_specs_and_table_are_read_by_different_code() -> None:
    """Who reads the table imports nothing of what reads specs, and the other way round."""
    for reader in READERS:
        imported = subprocess.run(
            [sys.executable, "-c", f"import runpy, sys; runpy.run_path({reader!r}); print(*sys.modules)"],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "HYPER_PARALLEL_PLATFORM": "numpy"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert not [name for name in imported if name.startswith(("hpgen.spec", "hpgen.plan", "hpgen.text"))], reader
    for path in (ROOT / "codegen").rglob("*.py"):
        texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
        assert not any("fake_cann" in text for text in texts if isinstance(text, str)), path

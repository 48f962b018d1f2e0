# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The torch code of docs/modules.md runs, on two ranks, and prints what the page shows."""

from __future__ import annotations

import contextlib
import io
import re

from ranks import ROOT, run_gloo_ranks

PAGE = (ROOT / "docs" / "modules.md").read_text()


def printed_by(code: str) -> str:
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(compile(code, "docs/modules.md", "exec"), {"__name__": "page"})
    return written.getvalue()


def test_the_code_runs_and_prints_what_is_shown():
    code = "\n".join(re.findall(r"^```python torch\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE))
    shown = re.findall(r"^```text\n(For module .*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
    assert run_gloo_ranks(printed_by, 2, code) == ["".join(shown)] * 2

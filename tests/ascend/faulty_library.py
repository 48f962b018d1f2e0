# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The faults of `fault_table` compiled and run, each in a process of its own.

Run, with `HYPER_PARALLEL_PLATFORM=mindspore` on a toolkit:
  python -m tests.ascend.faulty_library LIBRARY NUMBER    what comes of calling the fault of that number, as JSON
Run anywhere:
  python -m tests.ascend.faulty_library                   the table of docs/ascend.md
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.ascend.fault_table import FAULTS, ROW_SHIFT, Fault, Where
from tests.generator.spec_texts import hpgen

ROOT = Path(__file__).resolve().parents[2]
OWN_SPECS = Path(__file__).resolve().parent / "specs"
CALLS_EACH = 12


def specs_of(op: str) -> Path:
    return OWN_SPECS if op == ROW_SHIFT else ROOT / "specs"


def generated(spec: str, op: str, folder: Path) -> str:
    """The C++ that hpgen makes of a spec."""
    (folder / "specs").mkdir(parents=True)
    (folder / "specs" / f"{op}.yaml").write_text(spec)
    result = hpgen("ops", folder / "specs", "-o", folder / "generated", cwd=folder)
    assert result.returncode == 0, result.stderr
    return (folder / "generated" / op / f"{op}.cc").read_text()


def edited(text: str, fault: Fault) -> str:
    assert text.count(fault.old) == 1, f"{fault.what}: its place occurs {text.count(fault.old)} times"
    return text.replace(fault.old, fault.new)


def source_of(fault: Fault, folder: Path) -> str:
    """The operator's C++ with the fault; as it should be, for one in the header."""
    spec = (specs_of(fault.op) / f"{fault.op}.yaml").read_text()
    if fault.where is Where.SPEC:
        return generated(edited(spec, fault), fault.op, folder)
    text = generated(spec, fault.op, folder)
    return edited(text, fault) if fault.where is Where.GENERATED else text


def name_of(number: int, kernel: str) -> str:
    """A kernel of a fault, among those of others in one module."""
    return f"{kernel}_fault_{number}"


def renamed(text: str, fault: Fault, number: int) -> str:
    """The text with its functions and classes under names of their own."""
    text = re.sub(rf"\b{fault.op}(?:_backward)?\b(?![./])", lambda found: name_of(number, found[0]), text)
    return re.sub(r"\b(Npu\w+Runner)\b", rf"\1Fault{number}", text)


def library_of(numbers: Sequence[int], folder: Path, header: Fault | None = None) -> Any:
    """One module with the operators of some faults, to be built from sources in the folder; it is kept by their contents."""
    from hyper_parallel.native.flavours import MindSporeFlavour
    from hyper_parallel.native.library_cache import native_library
    from hyper_parallel.native.translation_unit import TranslationUnit

    for number in numbers:
        with tempfile.TemporaryDirectory() as work:
            text = source_of(FAULTS[number], Path(work))
        (folder / f"fault_{number}.cc").write_text(renamed(text, FAULTS[number], number))
    if header is not None:
        shutil.copytree(ROOT / "csrc", folder / "csrc", ignore=shutil.ignore_patterns("fake_cann", "cpu", "host"))
        changed = folder / "csrc" / "runner.h"
        changed.write_text(edited(changed.read_text(), header))
    sources = tuple(f"fault_{number}.cc" for number in numbers)
    return native_library(TranslationUnit("The library of faults", sources, (folder, ROOT)), MindSporeFlavour("Ascend"))


def row_shift_calls() -> list[Any]:
    from tests.ascend.drawn_calls import DrawnCall

    rng = np.random.default_rng(3)
    found = []
    for rows in (3, 5):
        x = rng.standard_normal((rows, 4)).astype(np.float16)
        found.append(DrawnCall(ROW_SHIFT, (x,), (x - x.max(axis=1, keepdims=True),)))
    return found


def outcome(module: Any, number: int) -> dict[str, Any]:
    """What calls of a fault's kernels come to: the error, the faults of the device, and which kernels are wrong."""
    sys.path.insert(0, str(ROOT / "tests" / "mindspore"))
    from on_mindspore import MINDSPORE

    from tests.ascend.device import FakeDevice
    from tests.ascend.drawn_calls import drawn_calls, is_right
    from tests.ascend.test_views import between_others

    fault = FAULTS[number]
    calls = row_shift_calls() if fault.op == ROW_SHIFT else drawn_calls(100, seed=4)
    of_fault = [call for call in calls if call.kernel.removesuffix("_backward") == fault.op][:CALLS_EACH]
    tensor = between_others if fault.where is Where.HEADER else MINDSPORE.tensor
    found: dict[str, Any] = {"calls": len(of_fault), "wrong": []}
    try:
        for call in of_fault:
            given = (tensor(value) if isinstance(value, np.ndarray) else value for value in call.arguments)
            made = getattr(module, name_of(number, call.kernel))(*given)
            outputs = [MINDSPORE.array(output) for output in (made if isinstance(made, list | tuple) else [made])]
            if not is_right(call, outputs):
                found["wrong"].append(call.kernel)
    except (RuntimeError, ValueError) as error:
        found["error"] = str(error)
    return found | {"faults": FakeDevice().take_faults()}


def loaded(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def table() -> str:
    """The faults as a Markdown table."""
    rows = ["| operator | fault | in | found by |", "|---|---|---|---|"]
    rows += [f"| `{fault.op}` | {fault.what} | {fault.where.value} | {fault.by.value} |" for fault in FAULTS]
    return "\n".join(rows)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print(table())
    else:
        print(json.dumps(outcome(loaded(sys.argv[1]), int(sys.argv[2]))))

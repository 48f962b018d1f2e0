# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Changing the spec changes the code: each edit of a copy is generated and run."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hyper_parallel

from .spec_texts import LSE, hpgen, lse_text, write_spec

SCRIPT_HEAD = """
import inspect, json
import numpy as np
import hyper_parallel
from hyper_parallel import Replicate, Shard, custom_ops, distribute_tensor, init_device_mesh
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

rng = np.random.default_rng(0)
q, k = rng.normal(size=(2, 3, 8, 128)).astype("f4"), rng.normal(size=(2, 4, 1, 128)).astype("f4")
w = rng.normal(size=(2, 3, 8)).astype("f4")
op = custom_ops.npu_dense_lightning_indexer_softmax_lse

def error(call):
    try:
        call()
    except Exception as caught:
        return f"{type(caught).__name__}: {caught}"
    return "no error"

def batch_sharded():
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    args = [distribute_tensor(t, mesh, (Shard(0),)) for t in (q, k, w)]
    return op(*args)[0].to_local()
"""


def run_changed(folder: Path, text: str, script: str, references: dict[str, str] | None = None) -> dict[str, object]:
    """Generate an edited spec into a copy of the package and run a script there; returns what it prints as JSON."""
    specs = write_spec(folder, text)
    site = folder / "site"
    package = Path(next(iter(hyper_parallel.__path__)))
    shutil.copytree(package, site / "hyper_parallel", ignore=shutil.ignore_patterns("__pycache__", "generated"))
    reference = Path(next(iter(importlib.import_module("hyper_parallel.reference").__path__)))
    shutil.copytree(reference, site / "hyper_parallel" / "reference", dirs_exist_ok=True)
    for name, source in (references or {}).items():
        (site / "hyper_parallel" / "reference" / name).write_text(source)
    made = hpgen("ops", specs, "-o", site / "hyper_parallel" / "generated", cwd=folder)
    assert made.returncode == 0, made.stderr
    environment = os.environ | {"PYTHONPATH": str(site), "HYPER_PARALLEL_PLATFORM": "numpy"}
    command = [sys.executable, "-c", SCRIPT_HEAD + script]
    result = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    printed: dict[str, object] = json.loads(result.stdout)
    assert str(printed["package"]).startswith(str(site)), "the copy is what must run"
    return printed


TAIL = 'print(json.dumps(out | {"package": hyper_parallel.__file__}))'


def test_unchanged_it_runs(tmp_path: Path) -> None:
    out = run_changed(
        tmp_path,
        lse_text(),
        'out = {"signature": str(inspect.signature(op)), "shape": run_ranks(batch_sharded, 2)[1].shape}\n' + TAIL,
    )
    assert out["signature"] == (
        "(query_index: 'Tensor', key_index: 'Tensor', weights: 'Tensor', *, actual_seq_qlen: 'Lengths | None' = None, "
        "actual_seq_klen: 'Lengths | None' = None, layout: 'str' = 'BSND', sparse_mode: 'int' = 3, "
        "pre_tokens: 'int' = 9223372036854775807, next_tokens: 'int' = 9223372036854775807) -> 'tuple[Tensor, Tensor]'"
    )
    assert out["shape"] == [1, 1, 3]


def test_renaming_an_argument(tmp_path: Path) -> None:
    text = lse_text(("weights:\n", "head_weights:\n"), ("key_index, weights", "key_index, head_weights"))
    script = """
out = {
    "new": error(lambda: op(q, k, head_weights=w)),
    "old": error(lambda: op(q, k, weights=w)),
    "check": error(lambda: op(q, k, w[:1])),
}
"""
    out = run_changed(tmp_path, text, script + TAIL)
    assert out["new"] == "no error"
    assert "unexpected keyword argument 'weights'" in str(out["old"])
    assert out["check"] == f"ValueError: For {LSE}, B (dim 0) of head_weights should be 2, but got 1."


def test_adding_an_attribute_with_a_default(tmp_path: Path) -> None:
    text = lse_text(
        ("outputs:\n", "  factor:\n    type: float\n    default: 1.5\n\noutputs:\n"),
        ("next_tokens, softmax_max", "next_tokens, factor, softmax_max"),
        ("reference: dense_lightning_indexer:softmax_lse", "reference: scaled:softmax_lse"),
    )
    reference = """
from . import dense_lightning_indexer

def softmax_lse(*arguments):
    *others, factor = arguments
    maximum, total = dense_lightning_indexer.softmax_lse(*others)
    return maximum * factor, total
"""
    script = """
plain = hyper_parallel.reference.dense_lightning_indexer.softmax_lse(q, k, w)[0]
out = {
    "last": str(list(inspect.signature(op).parameters.values())[-1]),
    "default": float(np.max(np.abs(op(q, k, w)[0] / plain - 1.5))),
    "given": float(np.max(np.abs(op(q, k, w, factor=3)[0] / plain - 3))),
    "type": error(lambda: op(q, k, w, factor="2")),
}
"""
    out = run_changed(
        tmp_path,
        text,
        "import hyper_parallel.reference.dense_lightning_indexer\n" + script + TAIL,
        {"scaled.py": reference},
    )
    assert out["last"] == "factor: 'float' = 1.5"
    assert float(str(out["default"])) < 1e-6
    assert float(str(out["given"])) < 1e-6
    assert out["type"] == f"TypeError: For {LSE}, factor should be of type float, but got '2' of type str."


def test_dropping_a_format(tmp_path: Path) -> None:
    text = lse_text(
        (", TND: T1 N1 D}", "}"),
        (", TND: T2 N2 D}", "}"),
        (", TND: T1 N1}", "}"),
        (", TND: N2 T1}", "}"),
        ("  T1: packed query tokens\n  T2: packed key tokens\n", ""),
        ("[B, S1, T1, T2]", "[B, S1]"),
        ("query: [S1, T1]", "query: [S1]"),
        ("key: [S2, T2]", "key: [S2]"),
        ("  lengths: {T1: actual_seq_qlen, T2: actual_seq_klen}\n", ""),
        ('  - {if: layout == "TND", then: actual_seq_qlen is not None and actual_seq_klen is not None}\n', ""),
        (
            "  actual_seq_qlen:\n    doc: Cumulative ends of the query documents.\n    type: lengths\n    of: T1\n    optional: true\n",
            "",
        ),
        (
            "  actual_seq_klen:\n    doc: Cumulative ends of the key documents.\n    type: lengths\n    of: T2\n    optional: true\n",
            "",
        ),
        ("actual_seq_qlen, actual_seq_klen,\n", "\n"),
        ("reference: dense_lightning_indexer:softmax_lse", "reference: bsnd:softmax_lse"),
    )
    reference = """
from . import dense_lightning_indexer

def softmax_lse(query_index, key_index, weights, *attributes):
    return dense_lightning_indexer.softmax_lse(query_index, key_index, weights, None, None, *attributes)
"""
    script = """
out = {
    "BSND": error(lambda: op(q, k, w, layout="BSND")),
    "TND": error(lambda: op(q[0], k[0], w[0], layout="TND")),
    "parameters": list(inspect.signature(op).parameters),
    "sharded": error(lambda: run_ranks(batch_sharded, 2)),
}
"""
    out = run_changed(tmp_path, text, script + TAIL, {"bsnd.py": reference})
    assert out["BSND"] == out["sharded"] == "no error"
    assert out["TND"] == f"ValueError: For {LSE}, layout should be 'BSND', but got 'TND'."
    assert "actual_seq_qlen" not in list(out["parameters"])  # type: ignore[call-overload]
    generated = (tmp_path / "site" / "hyper_parallel" / "generated" / LSE / f"parallel_{LSE}.py").read_text()
    assert "TND" not in generated
    assert "if layout" not in generated


def test_removing_a_dim_from_shard(tmp_path: Path) -> None:
    text = lse_text(("[B, S1, T1, T2]", "[S1, T1, T2]"))
    out = run_changed(tmp_path, text, 'out = {"sharded": error(lambda: run_ranks(batch_sharded, 2))}\n' + TAIL)
    assert str(out["sharded"]).startswith(
        f"ValueError: For {LSE}, B (dim 0) of query_index should be replicated, but got tensor_map=(0, -1, -1, -1)."
    )

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""An open case: parts that make up the whole again, computed here without the verifier."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpgen.library import load_library
from hpgen.verify.cases import NATURAL, Order
from hpgen.verify.meshes import GRID
from hpgen.verify.replay import CaseError, open_case
from hpgen.verify.search import ORDERS, Search

from .small_specs import EXAMPLE, ROOT, WINDOW, small_spec, write_small

POST: dict[str, Any] = {
    "problem": {
        "form": "BSND",
        "extents": {"B": 4, "S": 6, "N": 2, "D": 5},
        "attributes": {},
        "given": [],
        "documents": {},
        "seed": 0,
    },
    "mesh": {"dp": 2, "cp": 2},
    "placed": {
        "x": {"dims": [["dp"], ["cp"], [], []], "partial": []},
        "h_res": {"dims": [["dp"], ["cp"], [], []], "partial": []},
        "h_out": {"dims": [["dp"], [], []], "partial": []},
        "h_post": {"dims": [["dp"], ["cp"], []], "partial": []},
    },
    "order": {"name": "contiguous", "keys": "natural", "per_document": False},
}


def test_the_parts_are_those_of_the_formula() -> None:
    """out = h_res^T x + h_post (outer) h_out, and its gradients, written down here again."""
    call = open_case(str(ROOT / "specs" / "npu_mhc_post.yaml"), json.dumps(POST))
    x, h_res, h_out, h_post = (call.whole.tensors[name] for name in ("x", "h_res", "h_out", "h_post"))
    out = np.einsum("bsij,bsid->bsjd", h_res, x) + h_post[..., None] * h_out[..., None, :]
    grad = call.whole.cotangents["out"]
    expected = {
        ("output", "out"): out,
        ("gradient", "x"): np.einsum("bsij,bsjd->bsid", h_res, grad),
        ("gradient", "h_post"): np.einsum("bsjd,bsd->bsj", grad, h_out),
    }
    seen = call.run()
    for (what, name), whole in expected.items():
        for rank in range(4):
            rows, columns = slice(rank // 2 * 2, rank // 2 * 2 + 2), slice(rank % 2 * 3, rank % 2 * 3 + 3)
            np.testing.assert_allclose(call.got(seen, what, name, rank), whole[rows, columns], rtol=1e-12)
            np.testing.assert_allclose(call.expected(what, name, rank), whole[rows, columns], rtol=1e-12)
    np.testing.assert_array_equal(call.arguments(3)["x"], x[2:, 3:])
    np.testing.assert_array_equal(call.arguments(3)["h_out"], h_out[2:])
    assert call.difference() is None
    told = call.told()
    assert told["wrong"] is False
    assert told["lines"][-1] == "right: every rank holds what it should"


def test_a_wrong_case_says_where(tmp_path: Path) -> None:
    write_small(tmp_path, {"npu_window": small_spec("npu_window", "B, S")}, {"window": WINDOW})
    problem = {"form": "BSD", "extents": {"B": 1, "S": 4, "D": 2}, "attributes": {}, "given": [], "documents": {}}
    case = {
        "problem": problem | {"seed": 5},
        "mesh": {"cp": 2},
        "placed": {"x": {"dims": [[], ["cp"], []], "partial": []}},
        "order": POST["order"],
    }
    call = open_case(str(tmp_path / "specs" / "npu_window.yaml"), json.dumps(case))
    sums = call.whole.tensors["x"].sum(-1)
    seen = call.run()
    np.testing.assert_allclose(call.got(seen, "output", "out", 1)[0], [sums[0, 2], sums[0, 2] + sums[0, 3]])
    np.testing.assert_allclose(call.expected("output", "out", 1)[0], [sums[0, 1] + sums[0, 2], sums[0, 2] + sums[0, 3]])
    found = call.difference()
    assert found is not None
    assert (found.what, found.name, found.rank, found.index) == ("output", "out", 1, (0, 0))
    (wrong,) = [one for one in call.parts(seen) if one.wrong]
    assert (wrong.rank, wrong.wrong.split(":")[0]) == (1, "at (0, 0)")


def test_a_refused_case_is_not_run() -> None:
    placed = POST["placed"] | {"x": {"dims": [[], [], ["cp"], []], "partial": []}}
    call = open_case(str(ROOT / "specs" / "npu_mhc_post.yaml"), json.dumps(POST | {"placed": placed}))
    with pytest.raises(ValueError, match="should be replicated"):
        call.run()


PLACED = POST["placed"]
CHANGES = [
    ({"problem": POST["problem"] | {"form": "BSD"}}, "has no format 'BSD'; known: BSND, TND"),
    ({"problem": POST["problem"] | {"extents": {"B": 1}}}, "the dims with extents should be B, D, N, S, but are B"),
    ({"problem": POST["problem"] | {"attributes": {"eps": 1}}}, "has no attribute 'eps'"),
    ({"problem": POST["problem"] | {"documents": {"T": [[1]]}}}, "has no packed dim 'T'"),
    ({"placed": {}}, "the tensors that are placed should be h_out, h_post, h_res, x, but are none"),
    ({"placed": PLACED | {"x": {"dims": [["dp"]], "partial": []}}}, "x has the dims B S N D, but 1 are placed"),
    ({"placed": PLACED | {"x": {"dims": [[], [], [], []], "partial": [["cp", "avg"]]}}}, "has no reduction 'avg'"),
    ({"mesh": {"dp": 2}}, "has no mesh axis 'cp'; known: dp"),
    ({"mesh": {"dp": 2, "cp": 0}}, "cp should be a positive integer, but is 0"),
    ({"order": POST["order"] | {"name": "ring"}}, "has no order 'ring'; known: contiguous, zigzag, head_tail"),
]


@pytest.mark.parametrize(("change", "text"), CHANGES)
def test_a_case_of_another_operator(change: dict[str, Any], text: str) -> None:
    with pytest.raises(CaseError, match=re.escape(text)):
        open_case(str(ROOT / "specs" / "npu_mhc_post.yaml"), json.dumps(POST | change))


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.shown())
def test_cases_of_dealt_sequences_are_read_again(order: Order) -> None:
    """Packed documents of two groups over two ranks each, in every order in which they may be dealt."""
    library = load_library([ROOT / "specs" / "npu_lightning_indexer.yaml"])
    spec = next(one for one in library.specs if one.op in library.selected)
    case = Search(spec, "TND", 0).case(GRID, {"T1": ("dp", "cp"), "T2": ("dp",)}, order=order)
    call = open_case(str(ROOT / "specs" / "npu_lightning_indexer.yaml"), case.to_text())
    assert call.case == case
    assert {one.wrong for one in call.parts(call.run())} == {""}
    rows = np.concatenate([call.arguments(rank)["query"] for rank in range(4)])
    np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(call.whole.tensors["query"], axis=0))
    is_natural = bool(np.array_equal(rows, call.whole.tensors["query"]))
    assert is_natural is (order == NATURAL)


def test_a_text_that_is_no_case() -> None:
    with pytest.raises(ValueError, match="a case should be JSON"):
        open_case(str(EXAMPLE / "specs" / "acme_running_sum.yaml"), "{")

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What an operator is given on a rank, block by block, and what becomes of its outputs: an operator that writes down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from hyper_parallel import get_platform
from hyper_parallel.context_parallel import SequenceOrder
from hyper_parallel.core.shard.context_parallel import blocks
from hyper_parallel.core.shard.context_parallel.call_lengths import ReadIntegers
from hyper_parallel.core.shard.context_parallel.expansion import Expansion
from hyper_parallel.core.shard.ops.layout_rule import ContextParallel, LayoutRule
from hyper_parallel.core.shard.ops.sequence_inference import SequenceCut

INPUTS = {"q": ("T", "D"), "k": ("K", "D"), "pages": ("M", "P"), "rest": ("M",)}
ARGUMENTS = (*INPUTS, "q_ends", "k_ends", "mode", "ratio")


def expansion(
    func: Callable[..., Any],
    order: SequenceOrder,
    rank: int = 0,
    outputs: Mapping[str, tuple[str, ...]] = {"out": ("T",)},
    combine: Sequence[str] = ("same",),
    **values: Any,
) -> Expansion:
    """An operator with packed documents on 2 ranks; `q_ends` starts with a zero."""
    context = ContextParallel(
        query=("T",),
        key=("K",),
        mask=lambda attributes: "causal" if attributes["mode"] else "full",
        lengths={"T": "q_ends", "K": "k_ends"},
        leading_zero=("q_ends",),
        counts=("M",),
        ratio=("ratio", "rest"),
    )
    rule = LayoutRule(ARGUMENTS, {"TD": INPUTS}, {"TD": outputs}, ("T", "K"), context_parallel=context)
    cut = SequenceCut("TD", "T", "K", rank, 2, "(cp)", INPUTS, tuple(outputs.values()), tuple(combine))
    return Expansion("op", func, rule, cut, order, {"mode": 1, "ratio": 1, **values})


def recorded(order: SequenceOrder, rank: int = 0, values: Mapping[str, Any] = {}, **given: Any) -> list[dict[str, Any]]:
    """What the operator is called with for 4 rows on the rank, of two documents of 4 rows and keys."""
    calls: list[dict[str, Any]] = []

    def func(*args: Any, **kwargs: Any) -> Any:
        calls.append({**dict(zip(ARGUMENTS, args, strict=False)), **kwargs})
        return args[0][:, 0]

    tensors = np.arange(4.0)[:, None], np.arange(8.0)[:, None]
    expansion(func, order, rank, **values)(*tensors, **{"q_ends": [0, 4, 8], "k_ends": [4, 8], **given})
    return calls


CONTIGUOUS, ZIGZAG = SequenceOrder(), SequenceOrder("zigzag")


@pytest.mark.parametrize(
    "make", [list, tuple, lambda ends: np.array(ends, np.int32), np.array], ids=["list", "tuple", "int32", "int64"]
)
def test_document_ends_keep_their_kind(make: Callable[[Any], Any]) -> None:
    given = {"q_ends": make([0, 4, 8]), "k_ends": make([4, 8])}
    (call,) = recorded(CONTIGUOUS, rank=0, **given)
    for name, expected in (("q_ends", [0, 4, 4]), ("k_ends", [4, 4])):
        assert type(call[name]) is type(given[name])
        assert getattr(call[name], "dtype", None) == getattr(given[name], "dtype", None)
        assert list(call[name]) == expected


def test_a_tensor_with_ends_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Any] = []
    platform = type(get_platform())
    read = platform._to_host_list
    monkeypatch.setattr(platform, "_to_host_list", lambda self, tensor: reads.append(tensor) or read(self, tensor))
    recorded(ZIGZAG, q_ends=np.array([0, 4, 8]), k_ends=np.array([4, 8]))
    assert len(reads) == 2
    already = {"q_ends": ReadIntegers(np.array([0, 4, 8])), "k_ends": ReadIntegers(np.array([4, 8]))}
    del reads[:]
    calls = recorded(ZIGZAG, **already)
    assert not reads
    assert [type(call["q_ends"]) for call in calls] == [np.ndarray] * 2


def test_rows_and_keys_of_two_blocks() -> None:
    early, late = recorded(ZIGZAG, rank=0)  # rows 0 1, 6 7
    assert (early["q"].ravel().tolist(), late["q"].ravel().tolist()) == ([0, 1], [2, 3])
    assert (list(early["k_ends"]), len(early["k"])) == ([2, 2], 2)
    assert (list(late["k_ends"]), len(late["k"])) == ([4, 8], 8)
    assert (list(early["q_ends"]), list(late["q_ends"])) == ([0, 2, 2], [0, 0, 2])


def test_without_a_mask_all_keys() -> None:
    (call,) = recorded(CONTIGUOUS, values={"mode": 0})
    assert (len(call["k"]), list(call["k_ends"])) == (8, [4, 8])


def test_tensors_that_are_whole_are_not_copied() -> None:
    q, k = np.ones((4, 1)), np.ones((8, 1))
    seen: list[Any] = []
    expansion(lambda *args: seen.extend(args[:2]) or args[0][:, 0], CONTIGUOUS, 1)(q, k, None, None, [0, 4, 8], [4, 8])
    assert seen[0] is q
    assert seen[1] is k


def test_an_added_document_grows_what_counts_documents() -> None:
    """Rank 0 has 4 rows of a document that sees no key: one more document with the first key."""
    pages = np.array([[5, 6], [7, 8]])
    (call,) = recorded(CONTIGUOUS, q_ends=[0, 8, 8], k_ends=[3, 8], pages=pages)
    assert list(call["q_ends"]) == [0, 4, 4, 4]
    assert list(call["k_ends"]) == [0, 0, 1]
    assert call["pages"].tolist() == [[5, 6], [7, 8], [7, 8]]
    assert call["k"].tolist() == [[0.0]]


def test_residuals() -> None:
    """Keys of 3 tokens: rank 0 ends at row 4 of 8, whose last token is number 4 of 8 + 2 - 8 + 4 = 6."""
    for rest in (np.array([2, 1], np.int32), [2, 1]):
        (call,) = recorded(CONTIGUOUS, values={"ratio": 3}, q_ends=[0, 8, 8], k_ends=[3, 8], rest=rest)
        assert type(call["rest"]) is type(rest)
        assert (list(call["k_ends"]), list(call["rest"])) == ([2, 2], [1, 0])  # 3*3 + 2 - 8 + 4 = 7 tokens
    with pytest.raises(ValueError, match=r"^For op under context parallelism over \(cp\): rest is one number for all"):
        recorded(CONTIGUOUS, values={"ratio": 3}, rest=1)


def test_outputs_by_their_dims() -> None:
    """Rows in the rank's order, keys at their place and added up, counted entries without the added one."""
    outputs = {
        "rows": ("D", "T"),
        "keys": ("K",),
        "counted": ("M",),
        "largest": ("1",),
        "smallest": ("1",),
        "version": ("1",),
    }

    def func(q: Any, k: Any, _pages: Any, _rest: Any, q_ends: Any, _k_ends: Any) -> Any:
        return q.T, k[:, 0] + 1, np.ones(len(q_ends) - 1), q.max(axis=0), q.min(axis=0), np.array([7])

    order = SequenceOrder("zigzag", "dealt", True)
    # Two documents of 4 rows and keys; rank 0 holds 0 3 and 4 7, keys lie as 0 3 4 7 1 2 5 6.
    run = expansion(func, order, 0, outputs, ("same", "sum", "sum", "max", "min", "same"))
    rows, keys, counted, largest, smallest, version = run(
        np.array([[0.0], [3], [4], [7]]),
        np.array([[0.0], [3], [4], [7], [1], [2], [5], [6]]),
        None,
        None,
        [0, 4, 8],
        [4, 8],
    )
    assert rows.tolist() == [[0, 3, 4, 7]]
    assert keys.tolist() == [2, 4, 10, 8, 2, 3, 6, 7]  # the early block sees the keys 0 and 4, the late one all
    assert counted.tolist() == [2, 2]
    assert (largest[0], smallest[0], version.tolist()) == (7, 0, [7])


def test_one_output_stays_one() -> None:
    call = np.ones((4, 1)), np.ones((8, 1)), None, None, [0, 8], [8]
    assert isinstance(expansion(lambda *args: args[0][:, 0], ZIGZAG)(*call), np.ndarray)
    assert isinstance(expansion(lambda *args: (args[0][:, 0],), ZIGZAG)(*call), tuple)
    assert isinstance(expansion(lambda *args: [args[0][:, 0]], ZIGZAG)(*call), tuple)
    with pytest.raises(RuntimeError, match="For op, 2 outputs came back, but 1 have layouts"):
        expansion(lambda *args: (args[0], args[0]), ZIGZAG)(np.ones((4, 1)), np.ones((8, 1)), None, None, [0, 8], [8])


def test_windows_are_kept_for_the_same_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Any] = []
    windows = blocks.document_windows
    monkeypatch.setattr(
        blocks, "document_windows", lambda *args, **kwargs: computed.append(args) or windows(*args, **kwargs)
    )
    run = expansion(lambda *args: args[0][:, 0], CONTIGUOUS)
    tensors = np.ones((4, 1)), np.ones((8, 1)), None, None
    for ends in ([0, 4, 8], (0, 4, 8), np.array([0, 4, 8]), [0, 3, 8], [0, 4, 8]):
        run(*tensors, ends, [4, 8])
    assert len(computed) == 2
    run(np.ones((4, 1)), np.ones((9, 1)), None, None, [0, 4, 8], [4, 9])
    assert len(computed) == 3
    for last in range(blocks.MOST_KEPT + 1):
        run(*tensors, [0, last % 8, 8] if last < 8 else [0, last % 8, last % 8, 8], [4, 8] if last < 8 else [4, 4, 8])
    assert len(run._known) == blocks.MOST_KEPT


def test_nothing_runs_if_a_block_cannot_be_cut() -> None:
    launched: list[Any] = []
    run = expansion(lambda *args: launched.append(args), ZIGZAG)
    for tokens, ends, message in (
        (3, [0, 6], "for zigzag order on 2 ranks, the number of query rows should be divisible by 4"),
        (4, [0, 7], "the ends of the query documents should end at the 8 query tokens of the whole group, but got 7"),
        (4, [0, 5, 4, 8], "the ends of the query documents should not decrease"),
        (4, [0, 4, 8], "queries and keys should have as many documents, but got 2 and 1"),
        (4, None, "the document ends of queries and keys should be given both or not at all"),
    ):
        with pytest.raises(ValueError, match=rf"^For op under context parallelism over \(cp\): {message}"):
            run(np.ones((tokens, 1)), np.ones((8, 1)), None, None, ends, [8])
    assert launched == []


def test_no_rows_at_all() -> None:
    """The operator itself says what it thinks of that."""
    out = expansion(lambda *args: args[0][:, 0], ZIGZAG)(np.ones((0, 1)), np.ones((8, 1)), None, None, [0, 0], [8])
    assert out.shape == (0,)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The windows with mistakes put into them: the comparison with the whole call finds each."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from window_cases import (
    BALANCED,
    CONTIGUOUS,
    balanced_orders,
    case_of,
    cuts_up_to,
    fits,
    quick_key_lengths,
)
from window_oracle import Case, Code, fixed_length_looked_at, uneven_windows_looked_at, windows_looked_at

from hyper_parallel.core.shard.context_parallel.sequence_orders import SequenceOrder
from tests.mutants import Mutant, assert_found, copied_modules

PACKAGE = "hyper_parallel.core.shard.context_parallel"
MODULES = ("sequence_orders", "intervals", "documents", "windows", "fixed_length")  # each imports only earlier ones
ON_TENSORS = ("blocks", "call_lengths", "expansion", "outputs", "tensor_cuts")  # looked at with the operators


MUTANTS = (
    Mutant("the last document ends with the keys", "windows", "np.minimum(key_ends, before + count)",
           "np.append(np.minimum(key_ends, before + count)[:-1], key_ends[-1])"),
    Mutant("the document is looked up by its last row", "windows", "searchsorted(stop)", "searchsorted(stop, 'right') % len(key_ends)"),
    Mutant("one key too many", "windows", "(int(documents.query_ends[last]) - stop)\n", "(int(documents.query_ends[last]) - stop) + 1\n"),
    Mutant("one key too few", "windows", "(int(documents.query_ends[last]) - stop)\n", "(int(documents.query_ends[last]) - stop) - 1\n"),
    Mutant("top-left aligned", "windows", "(int(key_ends[last]) - before) * ratio + rest - (int(documents.query_ends[last]) - stop)",
           "stop - (int(documents.query_ends[last - 1]) if last else 0)"),
    Mutant("a window of fewer keys than none", "windows", "divmod(max(0, tokens), ratio)", "divmod(tokens, ratio)"),
    Mutant("the rows are not counted from the block's first", "windows", "np.maximum(documents.query_ends, start)", "np.maximum(documents.query_ends, 0)"),
    Mutant("rows of documents behind the block", "windows", "start), stop) - start", "start), documents.query_tokens) - start"),
    Mutant("no document is added", "windows", "if window.keys.length or not window.rows.length", "if True or window.keys.length"),
    Mutant("the added document has the row", "windows", "np.append(query_ends, query_ends[-1])", "np.append(query_ends, query_ends[-1] + 1)"),
    Mutant("the residual is the old one", "windows", "        residuals[last] = rest\n", ""),
    Mutant("the residual of a chunk is the old one", "windows", "residuals is None else tokens % ratio", "residuals is None else residuals + 0 * tokens"),
    Mutant("the residual is not counted", "windows", "        tokens += residuals\n", "        pass\n"),
    Mutant("rounded up to whole keys", "windows", "    return tokens // ratio,", "    return -(-tokens // ratio),"),
    Mutant("the chunk's first row instead of its last", "windows", "chunk_lengths * (chunks + 1)", "chunk_lengths * chunks"),
    Mutant("the chunk behind this one", "windows", "chunk_lengths * (chunks + 1)", "chunk_lengths * (chunks + 2)"),
    Mutant("a chunk's window of fewer keys than none", "windows", "np.maximum(tokens + chunk_lengths * (chunks + 1), 0)", "tokens + chunk_lengths * (chunks + 1)"),
    Mutant("the second chunk at the place of the first", "windows", "        held_at = stops\n", ""),
    Mutant("rows lie one document after the other in natural order", "windows", "(query_ends - chunk_lengths) * len(chunks)", "(query_ends - chunk_lengths) * count"),
    Mutant("queries' lengths for the keys'", "windows", "starts = documents.key_ends - documents.key_lengths", "starts = documents.key_ends - documents.query_lengths"),
    Mutant("fixed length: S1 for S2", "fixed_length", "key_length * ratio + (residual or 0) - query_length", "query_length * ratio + (residual or 0) - key_length"),
    Mutant("fixed length: lengths taken to be equal", "fixed_length", "key_length * ratio + (residual or 0) - query_length + ", ""),
    Mutant("fixed length: the keys up to the block's first row", "fixed_length", "(chunk + 1) * length", "chunk * length"),
    Mutant("fixed length: negative extents", "fixed_length", "max(0, tokens)", "tokens"),
    Mutant("head_tail for zigzag", "sequence_orders", 'order.name == "head_tail"', "order.is_balanced"),
    Mutant("zigzag for head_tail", "sequence_orders", 'order.name == "head_tail"', "False"),
    Mutant("zigzag's last chunk one further", "sequence_orders", "rank, 2 * ranks - 1 - rank", "rank, (2 * ranks - rank) % (2 * ranks)"),
    Mutant("pi for its inverse", "sequence_orders", "np.argsort(np.array(chunks, np.int64))", "np.array(chunks, np.int64)"),
    Mutant("documents of a rank lie at their natural start", "sequence_orders", "in_rank = (ends - lengths) // ranks", "in_rank = ends - lengths"),
    Mutant("documents before this one are forgotten", "sequence_orders", "in_rank = (ends - lengths) // ranks", "in_rank = 0 * lengths"),
    Mutant("both chunks of a rank at one place", "sequence_orders", "* (places % held)", "* (0 * places)"),
    Mutant("dealt keys taken as natural", "sequence_orders", 'self.is_balanced and self.keys == "dealt"', "False"),
    Mutant("whole chunks of dealt keys", "documents", "np.minimum(np.maximum(kept[:, None] - self._before, 0), self._chunk)", "self._chunk + 0 * self._before"),
    Mutant("dealt chunks in the order in which they lie", "documents", "self._chunk * np.arange(self._starts.shape[1])",
           "self._chunk * np.argsort(self._starts[:1])"),
    Mutant("pieces that do not touch are one", "intervals", "np.count_nonzero(shifts == start) == len(shifts)", "True"),
)  # fmt: skip


def code_with(mutant: Mutant | None) -> Code:
    """A copy of the modules, with the mistake in it."""
    with copied_modules([f"{PACKAGE}.{name}" for name in MODULES], mutant) as copies:
        return Code(
            copies["documents"].Documents,
            copies["sequence_orders"].SequenceOrder,
            copies["windows"].document_windows,
            copies["windows"].packed_window,
            copies["fixed_length"].fixed_length_windows,
        )


def look_at_some(code: Code) -> int:
    """A small part of the exhaustive tests, the simplest cases first."""
    count = 0
    for ratio in (1, 2):
        for tokens in range(5):
            for queries in cuts_up_to(tokens, 2):
                for longer in quick_key_lengths(len(queries)):
                    case = case_of(queries, longer, ratio=ratio)
                    count += uneven_windows_looked_at(code, case, 2)
                    for order in (CONTIGUOUS, *balanced_orders(False, "natural"), *balanced_orders(False, "dealt")):
                        if fits(order, 2, case):
                            count += windows_looked_at(code, case, order, 2)
    for name in BALANCED:
        for keys in ("natural", "dealt"):
            for ranks in (2, 3):
                chunks = 2 * ranks
                for queries in ((chunks,), (chunks, 2 * chunks), (0, chunks, chunks)):
                    order = SequenceOrder(name, keys, True)
                    longer = tuple(query + chunks for query in queries)
                    count += windows_looked_at(code, Case(queries, longer), order, ranks)
                    for residual in range(4):
                        case = Case(queries, queries[::-1], ratio=4, residuals=(residual,) * len(queries))
                        count += windows_looked_at(code, case, order, ranks)
                order = SequenceOrder(name, keys)
                for s1, s2 in ((chunks, chunks), (chunks, 2 * chunks), (2 * chunks, chunks)):
                    count += fixed_length_looked_at(code, Case((s1,), (s2,)), order, ranks)
    return count


def test_the_copy_without_a_mistake_passes() -> None:
    assert look_at_some(code_with(None)) == 2752


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake)
def test_a_mistake_is_found(mutant: Mutant) -> None:
    code = code_with(mutant)
    assert_found(lambda: look_at_some(code))


def test_the_modules_are_the_package() -> None:
    folder = Path(importlib.import_module(PACKAGE).__file__ or "").parent
    assert {path.stem for path in folder.glob("*.py")} == {*MODULES, *ON_TENSORS, "__init__"}

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Correct variants of specs and generated classes: renamed, reordered, stricter. Nobody should complain about them."""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.verify.mutants.model import CLAMP, DENSE, LSE, POST, PRE, RULE, SPARSE, SPEC, SPECS, TOP_K, Mutant

SHARD = "shard: [B, S1, T1, T2]"


def edited(what: str, op: str, *edits: tuple[str, str]) -> Mutant:
    return Mutant(what, op, SPEC, edits)


def rewritten(what: str, op: str, change: Callable[[str], str]) -> Mutant:
    text = (SPECS / f"{op}.yaml").read_text()
    return Mutant(what, op, SPEC, ((text, change(text)),))


def renamed(op: str, **names: str) -> Mutant:
    def change(text: str) -> str:
        for old, new in names.items():
            text = re.sub(rf"\b{old}\b", new, text)
        return text

    return rewritten(f"{', '.join(names)} renamed", op, change)


def by_class(what: str, op: str, text: str) -> Mutant:
    return Mutant(what, op, RULE, appended=text)


def variants() -> list[Mutant]:
    stricter = """
        def infer_layout(self, cache_values):
            for one in cache_values:
                if hasattr(one, "tensor_map") and any(isinstance(axis, tuple) for axis in one.tensor_map):
                    raise ValueError(f"For {self.op_name}, a dim should lie on one mesh axis.")
            return super().infer_layout(cache_values)
    """
    same = """
        def infer_layout(self, cache_values):
            return super().infer_layout(cache_values)

        def get_expand_impl(self, func, infer_result, cache_values):
            return super().get_expand_impl(func, infer_result, cache_values)
    """
    return [
        renamed(LSE, N1="heads", N2="key_heads", T1="tokens"),
        renamed(DENSE, Di="size", S1="rows", B="Batch"),
        renamed(PRE, N="streams", T="tokens"),
        renamed(POST, h_out="layer_output", D="channels"),
        renamed(SPARSE, K="selected", G="group"),
        renamed(TOP_K, weights="head_weights", D="size"),
        edited("shard reordered", LSE, (SHARD, "shard: [T2, T1, S1, B]")),
        edited("shard reordered", DENSE, (SHARD, "shard: [T1, S1, T2, B]")),
        Mutant("only packed tokens may be sharded", LSE, RULE, (('shard=("B", "S1", "T1", "T2")', 'shard=("T1", "T2")'),)),
        Mutant("S1 may not be sharded", SPARSE, RULE, (('shard=("B", "S1", "T1", "T2")', 'shard=("B", "T1", "T2")'),)),
        edited("keys of packed documents may not be sharded", TOP_K, (SHARD, "shard: [B, S1, T1]")),
        edited("D may not be sharded", POST, ("shard: [B, S, T, D]", "shard: [B, S, T]")),
        edited("only the batch may be sharded", CLAMP, ("shard: [B, S, T]", "shard: [B]")),
        edited("no tensor may be Partial", POST, ("  linear: [[x, h_out], [h_res, h_post]]\n", "")),
        edited("linear groups reordered", POST, ("[[x, h_out], [h_res, h_post]]", "[[h_post, h_res], [h_out, x]]")),
        edited("other linear groups, which are right, too", POST, ("[[x, h_out], [h_res, h_post]]", "[[x, h_post], [h_res, h_out]]")),
        edited("more is required", LSE, ("  - S1 <= S2\n", "  - S1 <= S2\n  - S1 >= 2\n  - B in (2, 4, 6, 8)\n")),
        edited("requirements reordered", DENSE, ("  - N2 * G == N1\n", ""), ("  - R == 64\n", "  - R == 64\n  - N2 * G == N1\n")),
        edited("all keys for positions that look at some", SPARSE, ("mask: causal\n", "mask: full\n")),
        edited("dims written out", LSE, ("    like: softmax_max\n", "    dtype: float32\n    dims: {BSND: B N2 S1, TND: N2 T1}\n")),
        edited("lengths on the host", TOP_K,
               ("    of: T1\n    count: documents\n    optional: true\n    leading_zero: true\n    where: device\n    dtype: int32\n",
                "    of: T1\n    count: documents\n    optional: true\n    leading_zero: true\n    where: host\n")),
        by_class("a dim may lie on one axis only", PRE, stricter),
        by_class("a dim may lie on one axis only", DENSE, stricter),
        by_class("methods that call those of the base", TOP_K, same),
    ]  # fmt: skip

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Wrong specs."""

from __future__ import annotations

from tests.verify.mutants.model import CLAMP, DENSE, LSE, POST, PRE, SPARSE, SPEC, TOP_K, Mutant

SHARD = "shard: [B, S1, T1, T2]"
LENGTHS = "lengths: {T1: actual_seq_qlen, T2: actual_seq_klen}"


def spec(mistake: str, op: str, *edits: tuple[str, str]) -> Mutant:
    return Mutant(mistake, op, SPEC, edits)


def shardable() -> list[Mutant]:
    """Dims over which the operator sums, or that it needs whole, in `shard`."""
    dims = [
        (LSE, SHARD, ("N1", "D")),
        (TOP_K, SHARD, ("N1", "D")),
        (DENSE, SHARD, ("N1", "N2", "G", "D", "R", "N1i", "Di")),
        (SPARSE, SHARD, ("N1", "D", "K", "N1i", "Di")),
        (PRE, "shard: [B, S, T]", ("C",)),
        (CLAMP, "shard: [B, S, T]", ("C",)),
    ]
    found = [
        spec(f"{dim}, a contracted dim, may be sharded", op, (old, f"{old[:-1]}, {dim}]"))
        for op, old, names in dims
        for dim in names
    ]
    return [
        *found,
        spec("S2 may be sharded by itself", LSE, (SHARD, "shard: [B, S1, S2, T1, T2]")),
        spec("a contracted dim may be sharded, with max", LSE, (SHARD, "shard: [B, S1, T1, T2, N1]"),
             ("    dims: {BSND: B N2 S1, TND: N2 T1}\n", "    dims: {BSND: B N2 S1, TND: N2 T1}\n    combine: max\n"),
             ("    like: softmax_max\n", "    like: softmax_max\n    combine: sum\n")),
        spec("a contracted dim is reduced by a sum before the softmax", LSE, (SHARD, f"{SHARD}\n  reduce: {{N1: sum}}")),
        spec("a contracted dim is reduced by a sum before the selection", TOP_K, (SHARD, f"{SHARD}\n  reduce: {{D: sum}}")),
        spec("a contracted dim is reduced by a sum", DENSE, (SHARD, f"{SHARD}\n  reduce: {{Di: sum}}")),
        spec("a contracted dim is reduced by a sum", PRE, ("shard: [B, S, T]", "shard: [B, S, T]\n  reduce: {C: sum}")),
    ]  # fmt: skip


def combines() -> list[Mutant]:
    key = ("    like: key_index\n    combine: sum\n", "    like: key_index\n    combine: {}\n")
    loss = ('    dims: "1"\n    combine: sum\n', '    dims: "1"\n    combine: {}\n')
    return [
        spec(f"{name} is combined by {word}", op, (old, new.format(word)))
        for op in (DENSE, SPARSE)
        for name, (old, new) in {"d_key_index": key, "loss": loss}.items()
        for word in ("max", "min", "same")
    ]


def outputs() -> list[Mutant]:
    return [
        spec("dims of an output permuted", LSE, ("dims: {BSND: B N2 S1, TND: N2 T1}", "dims: {BSND: B S1 N2, TND: T1 N2}")),
        spec("dims of an output permuted in one format", LSE, ("dims: {BSND: B N2 S1, TND: N2 T1}", "dims: {BSND: B N2 S1, TND: T1 N2}")),
        spec("dims of an output permuted", TOP_K,
             ("    doc: Selected positions.\n    dtype: int32\n    dims: {BSND: B S1 N2 sparse_count",
              "    doc: Selected positions.\n    dtype: int32\n    dims: {BSND: S1 B N2 sparse_count")),
        spec("dims of an output permuted", PRE, ("dims: {BSNC: 2*num_iters B S N, TNC: 2*num_iters T N}", "dims: {BSNC: 2*num_iters S B N, TNC: 2*num_iters T N}")),
        spec("an output is like another tensor", DENSE, ("    doc: Gradient of query_index.\n    like: query_index", "    doc: Gradient of query_index.\n    like: query")),
        spec("query dim of an output taken for the key dim", DENSE, ("    doc: Gradient of weights.\n    like: weights", "    doc: Gradient of weights.\n    dtype: query\n    dims: {BSND: B S2 N1i, TND: T2 N1i}\n    combine: sum")),
        spec("two outputs swapped", LSE, ("softmax_max, softmax_sum)", "softmax_sum, softmax_max)"),
             ("  softmax_max:\n    doc: Maximum", "  softmax_sum:\n    doc: Maximum"),
             ("  softmax_sum:\n    doc: Sum of exp(score - maximum) over each row.\n    like: softmax_max", "  softmax_max:\n    doc: Sum of exp(score - maximum) over each row.\n    like: softmax_sum\n    combine: max")),
    ]  # fmt: skip


def partial_inputs() -> list[Mutant]:
    own = "linear: [[x, h_out], [h_res, h_post]]"
    return [
        spec("one tensor of a linear group is missing", POST, (own, "linear: [[x], [h_res, h_post]]")),
        spec("two linear groups taken for one", POST, (own, "linear: [[x, h_out, h_res, h_post]]")),
        spec("a group that is not linear", LSE, (SHARD, f"{SHARD}\n  linear: [[weights]]")),
        spec("a group that is not linear", LSE, (SHARD, f"{SHARD}\n  linear: [[query_index]]")),
        spec("a group that is not linear", TOP_K, (SHARD, f"{SHARD}\n  linear: [[weights]]")),
        spec("a group that is not linear", DENSE, (SHARD, f"{SHARD}\n  linear: [[weights]]")),
        spec("a group that is not linear", SPARSE, (SHARD, f"{SHARD}\n  linear: [[key_index]]")),
        spec("a group that is not linear", PRE, ("shard: [B, S, T]", "shard: [B, S, T]\n  linear: [[x]]")),
        spec("a group that is not linear", CLAMP, ("shard: [B, S, T]", "shard: [B, S, T]\n  linear: [[bias]]")),
    ]


def sequences() -> list[Mutant]:
    swapped = "lengths: {T1: actual_seq_klen, T2: actual_seq_qlen}"
    return [
        *(spec("no mask", op, ("mask: causal\n", "mask: full\n")) for op in (LSE, DENSE)),
        spec("causal without a mask", TOP_K, ("mask: causal if sparse_mode == 3 else full", "mask: causal")),
        spec("the mask's words swapped", TOP_K, ("mask: causal if sparse_mode == 3 else full", "mask: full if sparse_mode == 3 else causal")),
        *(spec("lengths swapped", op, (LENGTHS, swapped)) for op in (LSE, DENSE, SPARSE)),
        spec("lengths swapped", TOP_K, ("lengths: {T1: cu_seq_lens_q, T2: cu_seq_lens_k}", "lengths: {T1: cu_seq_lens_k, T2: cu_seq_lens_q}")),
        *(spec("keys of packed documents are not cut", op, ("key: [S2, T2]", "key: [S2]")) for op in (LSE, DENSE)),
        *(spec("queries and keys swapped", op, ("  query: [S1, T1]\n  key: [S2, T2]\n", "  query: [S2, T2]\n  key: [S1, T1]\n")) for op in (LSE, SPARSE)),
        spec("no window at all", LSE, ("context_parallel:\n  query: [S1, T1]\n  key: [S2, T2]\n  mask: causal\n  " + LENGTHS + "\n\n", "")),
        spec("the leading zero of lengths forgotten", TOP_K,
             ("    of: T2\n    optional: true\n    leading_zero: true\n", "    of: T2\n    optional: true\n")),
    ]  # fmt: skip


def gradients() -> list[Mutant]:
    own = "precomputed: {query_index: d_query_index, key_index: d_key_index, weights: d_weights}"
    post = "grad(out), x, h_res, h_out, h_post, grad(x), grad(h_res), grad(h_out), grad(h_post)"
    return [
        *(spec("the cotangent is ignored", op, ("cotangent: loss", "cotangent: ignored")) for op in (DENSE, SPARSE)),
        spec("gradients of two inputs swapped", DENSE, (own, "precomputed: {query_index: d_key_index, key_index: d_query_index, weights: d_weights}")),
        spec("gradients of two inputs swapped", POST, (post, post.replace("grad(h_res), grad(h_out)", "grad(h_out), grad(h_res)"))),
        spec("two tensors of the backward swapped", POST, (post, post.replace("x, h_res, h_out, h_post, grad(x)", "h_out, h_res, x, h_post, grad(x)"))),
        spec("two cotangents swapped", PRE, ("grad(h_in), grad(h_post), unflatten", "grad(h_post), grad(h_in), unflatten")),
        spec("two saved outputs swapped", CLAMP, ("hc_before_norm, inv_rms, sum_out, norm_out, h_res_logits, hc_eps", "hc_before_norm, inv_rms, norm_out, sum_out, h_res_logits, hc_eps")),
        spec("a wrong attribute in the backward", CLAMP, ("hc_eps, clamp_min, clamp_max, grad(x)", "norm_eps, clamp_min, clamp_max, grad(x)")),
        spec("bounds swapped in the backward", CLAMP, ("hc_eps, clamp_min, clamp_max, grad(x)", "hc_eps, clamp_max, clamp_min, grad(x)")),
    ]  # fmt: skip


def mutants() -> list[Mutant]:
    return [*shardable(), *combines(), *outputs(), *partial_inputs(), *sequences(), *gradients()]

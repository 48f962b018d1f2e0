# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Single mistakes in the specs, and what finds each: reading the spec, or only a run against the reference.

`python -m tests.generator.mutations` prints the table of docs/mutations.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from hpgen.diagnostics import Source, SpecError
from hpgen.spec.check import check_spec
from hpgen.spec.load import load_spec

from .spec_texts import SPECS

LSE = "npu_dense_lightning_indexer_softmax_lse"
DENSE = "npu_dense_lightning_indexer_grad_kl_loss"
SPARSE = "npu_sparse_lightning_indexer_grad_kl_loss"
INDEXER = "npu_lightning_indexer"
POST = "npu_mhc_post"
PRE = "npu_mhc_pre_sinkhorn"
CLAMP = "npu_mhc_pre_clamp_sinkhorn"
RUN = "run"


@dataclass(frozen=True)
class Mutation:
    """One mistake: `old` replaced by `new` in the spec of `op`. `found_by` is a diagnostic id, or RUN."""

    op: str
    mistake: str
    old: str
    new: str
    found_by: str

    def text(self) -> str:
        """The spec with the mistake in it."""
        source = (SPECS / f"{self.op}.yaml").read_text()
        assert self.old in source, f"{self.mistake}: {self.old!r} is not in the spec of {self.op}"
        return source.replace(self.old, self.new, 1)

    def findings(self) -> list[str]:
        """The ids that reading the spec gives."""
        try:
            check_spec(load_spec(Source(f"specs/{self.op}.yaml", self.text())))
        except SpecError as error:
            return sorted({diagnostic.rule for diagnostic in error.diagnostics})
        return []


MUTATIONS = (
    Mutation(DENSE, "combine of the loss forgotten", '    dims: "1"\n    combine: sum\n', '    dims: "1"\n', "HP302"),
    Mutation(
        DENSE,
        "combine of d_key_index forgotten",
        "    like: key_index\n    combine: sum\n",
        "    like: key_index\n",
        "HP302",
    ),
    Mutation(
        DENSE,
        "combine of d_key_index is max",
        "    like: key_index\n    combine: sum\n",
        "    like: key_index\n    combine: max\n",
        "HP302",
    ),
    Mutation(
        DENSE,
        "loss said to be the same on every shard",
        '    dims: "1"\n    combine: sum\n',
        '    dims: "1"\n    combine: same\n',
        "HP403",
    ),
    Mutation(
        LSE,
        "combine where there is nothing to combine",
        "    like: softmax_max\n",
        "    like: softmax_max\n    combine: sum\n",
        "HP302",
    ),
    Mutation(
        LSE,
        "two kernel arguments of different type swapped",
        "weights, actual_seq_qlen, actual_seq_klen",
        "actual_seq_qlen, weights, actual_seq_klen",
        RUN,
    ),
    Mutation(
        LSE,
        "two kernel arguments of one type swapped",
        "pre_tokens, next_tokens, softmax_max",
        "next_tokens, pre_tokens, softmax_max",
        RUN,
    ),
    Mutation(LSE, "the outputs of the kernel swapped", "softmax_max, softmax_sum)", "softmax_sum, softmax_max)", RUN),
    Mutation(LSE, "an argument forgotten in the kernel call", "weights, actual_seq_qlen", "actual_seq_qlen", "HP402"),
    Mutation(LSE, "an output forgotten in the kernel call", ", softmax_sum)", ")", "HP402"),
    Mutation(
        LSE, "an argument misspelt in the kernel call", "layout, sparse_mode, pre", "layuot, sparse_mode, pre", "HP103"
    ),
    Mutation(
        LSE, "a comma forgotten in the kernel call", "layout, sparse_mode, pre", "layout sparse_mode, pre", "HP202"
    ),
    Mutation(LSE, "the kernel's name misspelt at its start", "aclnnDense", "aclNNDense", "HP401"),
    Mutation(
        POST, "a gradient forgotten in the backward call", ", grad(h_out), grad(h_post))", ", grad(h_post))", "HP403"
    ),
    Mutation(POST, "the incoming gradient forgotten", "(grad(out), x,", "(x,", "HP403"),
    Mutation(POST, "two gradients swapped", "grad(h_res), grad(h_out)", "grad(h_out), grad(h_res)", RUN),
    Mutation(POST, "the gradient of an unknown name", "grad(h_res)", "grad(h_ros)", "HP103"),
    Mutation(PRE, "grads_unused forgotten", "  grads_unused: ignored\n", "", "HP403"),
    Mutation(POST, "grads_unused where all are used", "\nkernel:", "  grads_unused: ignored\n\nkernel:", "HP403"),
    Mutation(PRE, "the shape adapter forgotten", "unflatten(grad(h_res), -1, N, N)", "grad(h_res)", RUN),
    Mutation(
        PRE,
        "a shape adapter with too few arguments",
        "unflatten(grad(h_res), -1, N, N)",
        "unflatten(grad(h_res), -1)",
        "HP202",
    ),
    Mutation(
        DENSE,
        "an input's gradient undecided",
        "    dims: {BSND: B S1 N1 D, TND: T1 N1 D}\n    differentiable: false\n",
        "    dims: {BSND: B S1 N1 D, TND: T1 N1 D}\n",
        "HP403",
    ),
    Mutation(DENSE, "the cotangent left out", "  cotangent: loss\n", "", "HP403"),
    Mutation(
        DENSE, "the cotangent ignored: loss scaling is lost", "  cotangent: loss\n", "  cotangent: ignored\n", RUN
    ),
    Mutation(DENSE, "a cotangent of many numbers", "  cotangent: loss\n", "  cotangent: d_weights\n", "HP403"),
    Mutation(
        DENSE, "a precomputed gradient of the wrong output", "weights: d_weights}", "weights: d_key_index}", "HP403"
    ),
    Mutation(
        DENSE,
        "the wrong like",
        "    doc: Gradient of key_index.\n    like: key_index\n",
        "    doc: Gradient of key_index.\n    like: query_index\n",
        "HP302",
    ),
    Mutation(PRE, "the wrong like, with other dims", "    like: h_post\n", "    like: h_res\n", RUN),
    Mutation(LSE, "a contracted dim marked shardable", "shard: [B, S1, T1, T2]", "shard: [B, S1, T1, T2, D]", "HP302"),
    Mutation(
        POST,
        "a contracted dim marked shardable, which stands twice in a tensor",
        "shard: [B, S, T, D]",
        "shard: [B, S, T, D, N]",
        "HP301",
    ),
    Mutation(PRE, "a dim inside an expression marked shardable", "shard: [B, S, T]", "shard: [B, S, T, C]", "HP301"),
    Mutation(
        POST, "a contracted dim under reduce that outputs keep", "  linear:", "  reduce: {D: sum}\n  linear:", "HP301"
    ),
    Mutation(POST, "linear in the wrong groups", "[[x, h_out], [h_res, h_post]]", "[[x, h_post], [h_res, h_out]]", RUN),
    Mutation(
        POST, "linear in an unknown input", "[[x, h_out], [h_res, h_post]]", "[[x, h_ou], [h_res, h_post]]", "HP301"
    ),
    Mutation(LSE, "the key dim marked shardable in BSND", "shard: [B, S1, T1, T2]", "shard: [B, S1, S2, T1, T2]", RUN),
    Mutation(LSE, "the query dim no longer shardable", "shard: [B, S1, T1, T2]", "shard: [B, T1, T2]", "HP303"),
    Mutation(
        LSE,
        "a wrong dim letter that is declared",
        "    dims: {BSND: B S1 N1, TND: T1 N1}",
        "    dims: {BSND: B S2 N1, TND: T1 N1}",
        RUN,
    ),
    Mutation(
        LSE,
        "a wrong dim letter that is not declared",
        "    dims: {BSND: B S1 N1, TND: T1 N1}",
        "    dims: {BSND: B S3 N1, TND: T1 N1}",
        "HP102",
    ),
    Mutation(LSE, "two dims of an output permuted", "{BSND: B N2 S1, TND: N2 T1}", "{BSND: B S1 N2, TND: N2 T1}", RUN),
    Mutation(LSE, "a dim of an output forgotten", "{BSND: B N2 S1, TND: N2 T1}", "{BSND: N2 S1, TND: N2 T1}", "HP302"),
    Mutation(
        LSE,
        "an output with a dim of the other format",
        "{BSND: B N2 S1, TND: N2 T1}",
        "{BSND: B N2 S1, TND: N2 S1}",
        "HP106",
    ),
    Mutation(LSE, "a format forgotten for one tensor", "{BSND: B S2 N2 D, TND: T2 N2 D}", "{BSND: B S2 N2 D}", "HP105"),
    Mutation(
        LSE,
        "a format misspelt for one tensor",
        "{BSND: B S2 N2 D, TND: T2 N2 D}",
        "{BSND: B S2 N2 D, TDN: T2 N2 D}",
        "HP105",
    ),
    Mutation(LSE, "the format attribute misspelt", "format: layout", "format: layuot", "HP105"),
    Mutation(LSE, "the default format is none", "    default: BSND\n", "    default: BNSD\n", "HP105"),
    Mutation(POST, "the format told by the rank of a missing tensor", "format: rank(x)", "format: rank(y)", "HP105"),
    Mutation(LSE, "a default of the wrong type", "    default: 3\n", "    default: '3'\n", "HP201"),
    Mutation(LSE, "a default that is no choice", "    default: 3\n", "    default: 0\n", "HP201"),
    Mutation(
        DENSE, "a required attribute given a default", "    type: float\n", "    type: float\n    default: 1.0\n", RUN
    ),
    Mutation(LSE, "a dtype misspelt", "dtype: [bfloat16, float16]", "dtype: [bfloat16, flaot16]", "HP203"),
    Mutation(
        LSE,
        "the dtype of a tensor that comes later",
        "    dtype: [bfloat16, float16]\n",
        "    dtype: [weights, float16]\n",
        "HP203",
    ),
    Mutation(
        LSE,
        "the wrong dtype of an output",
        "    dtype: float32\n    dims: {BSND: B N2 S1",
        "    dtype: query_index\n    dims: {BSND: B N2 S1",
        RUN,
    ),
    Mutation(
        LSE, "lengths of the wrong dim", "    type: lengths\n    of: T1\n", "    type: lengths\n    of: T2\n", "HP303"
    ),
    Mutation(
        LSE,
        "the lengths of the cut swapped",
        "{T1: actual_seq_qlen, T2: actual_seq_klen}",
        "{T1: actual_seq_klen, T2: actual_seq_qlen}",
        "HP303",
    ),
    Mutation(LSE, "an unknown mask", "mask: causal", "mask: casual", "HP303"),
    Mutation(
        INDEXER,
        "the mask depends on a tensor",
        "mask: causal if sparse_mode == 3",
        "mask: causal if query == 3",
        "HP303",
    ),
    Mutation(
        INDEXER,
        "the mask the wrong way round",
        "causal if sparse_mode == 3 else full",
        "full if sparse_mode == 3 else causal",
        RUN,
    ),
    Mutation(INDEXER, "the leading zero forgotten", "    leading_zero: true\n", "", RUN),
    Mutation(LSE, "a requirement turned round", "- S1 <= S2", "- S1 >= S2", RUN),
    Mutation(LSE, "a requirement with an unknown name", "- N2 == 1", "- N7 == 1", "HP103"),
    Mutation(LSE, "a requirement with = for ==", "- N2 == 1", "- N2 = 1", "HP202"),
    Mutation(LSE, "a dim declared and not used", "  D: head size\n", "  D: head size\n  E: nothing\n", "HP107"),
    Mutation(LSE, "a name that is a word of C++", "  weights:\n", "  register:\n", "HP101"),
    Mutation(LSE, "an argument named like a dim", "  weights:\n", "  N1:\n", "HP104"),
    Mutation(LSE, "an unknown key", "    optional: true\n", "    optionl: true\n", "HP021"),
    Mutation(LSE, "a required key left out", "summary: Row", "# summary: Row", "HP022"),
    Mutation(
        PRE,
        "the backward reference left out",
        "{forward: mhc:pre_sinkhorn, backward: mhc:pre_sinkhorn_backward}",
        "mhc:pre_sinkhorn",
        "HP404",
    ),
    Mutation(
        CLAMP,
        "the bounds of the clamp swapped in the kernel call",
        "out_flag, clamp_min, clamp_max",
        "out_flag, clamp_max, clamp_min",
        RUN,
    ),
    Mutation(SPARSE, "an index without its dims", "    dims: {BSND: B S1 N2i K, TND: T1 N2i K}\n", "", "HP204"),
    Mutation(SPARSE, "a literal of the kernel call dropped", "True, d_query_index", "d_query_index", RUN),
)


def table() -> str:
    """The mutations as a Markdown table, those found by reading first."""
    rows = ["| operator | mistake | found by |", "|---|---|---|"]
    for by_run in (False, True):
        for mutation in MUTATIONS:
            if (mutation.found_by == RUN) == by_run:
                how = "a run" if by_run else f"reading: {mutation.found_by}"
                rows.append(f"| `{mutation.op}` | {mutation.mistake} | {how} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())

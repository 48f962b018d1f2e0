# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Wrong copies of generated classes: layout rules, and autograd functions."""

from __future__ import annotations

from tests.verify.mutants.model import CLAMP, DENSE, FUNCTION, LSE, POST, PRE, RULE, SPARSE, TOP_K, Mutant

SHARD = 'shard=("B", "S1", "T1", "T2")'

NOTHING_PENDING = """
    def infer_layout(self, cache_values):
        layouts, extra = super().infer_layout(cache_values)
        return tuple(type(one).from_tensor_map(one.mesh, one.tensor_map, None) for one in layouts), extra
"""
PENDING_ON_ONE = """
    def infer_layout(self, cache_values):
        layouts, extra = super().infer_layout(cache_values)
        found = []
        for one in layouts:
            ops = [op for op in one.partial if op]
            pending = [None] * len(one.partial)
            if ops:
                pending[AXIS] = ops[0]
            found.append(type(one).from_tensor_map(one.mesh, one.tensor_map, tuple(pending)))
        return tuple(found), extra
"""


def rule(mistake: str, op: str, *edits: tuple[str, str]) -> Mutant:
    return Mutant(mistake, op, RULE, edits)


def method(mistake: str, op: str, text: str) -> Mutant:
    return Mutant(mistake, op, RULE, appended=text)


def function(mistake: str, op: str, *edits: tuple[str, str]) -> Mutant:
    return Mutant(mistake, op, FUNCTION, edits)


def shardable() -> list[Mutant]:
    """Dims that the operator needs whole, shardable: reading a spec would find most of these."""
    dims = {LSE: ("N1", "D", "S2"), TOP_K: ("N1", "D"), DENSE: ("N1", "N1i", "Di", "G"), SPARSE: ("N1", "D", "Di", "K")}
    found = [
        rule(f"{dim} may be sharded", op, (SHARD, f'{SHARD[:-1]}, "{dim}")'))
        for op, names in dims.items()
        for dim in names
    ]
    plain = 'shard=("B", "S", "T")'
    return [
        *found,
        rule("C may be sharded", PRE, (plain, 'shard=("B", "S", "T", "C")')),
        rule("C may be sharded", CLAMP, (plain, 'shard=("B", "S", "T", "C")')),
    ]


def placements() -> list[Mutant]:
    combine = 'combine={"d_key_index": "sum", "loss": "sum"}'
    return [
        rule("max for the sum", DENSE, (combine, 'combine={"d_key_index": "sum", "loss": "max"}')),
        rule("max for the sum", SPARSE, (combine, 'combine={"d_key_index": "max", "loss": "sum"}')),
        rule("the same for the sum", DENSE, (combine, 'combine={"d_key_index": "sum", "loss": "same"}')),
        rule("the same for the sum", SPARSE, (combine, 'combine={"d_key_index": "same", "loss": "sum"}')),
        rule("dims of an output permuted", LSE,
             ('"softmax_max": ("B", "N2", "S1"), "softmax_sum": ("B", "N2", "S1")', '"softmax_max": ("B", "S1", "N2"), "softmax_sum": ("B", "N2", "S1")')),
        rule("dims of an output permuted", POST, ('outputs={"BSND": {"out": ("B", "S", "N", "D")}', 'outputs={"BSND": {"out": ("S", "B", "N", "D")}')),
        rule("dims of an input permuted", LSE, ('"weights": ("B", "S1", "N1")', '"weights": ("S1", "B", "N1")')),
        rule("dims of an input permuted", DENSE, ('"softmax_max": ("N2", "T1", "G")', '"softmax_max": ("T1", "N2", "G")')),
        rule("dims of an input permuted", PRE, ('"x": ("T", "N", "C")', '"x": ("N", "T", "C")')),
        method("Partial outputs are said to be whole", DENSE, NOTHING_PENDING),
        method("Partial over the first axis, whichever it is", DENSE, PENDING_ON_ONE.replace("AXIS", "0")),
        method("Partial over the last axis, whichever it is", SPARSE, PENDING_ON_ONE.replace("AXIS", "-1")),
        method("Partial outputs of linear groups lost", POST, NOTHING_PENDING),
        method("outputs are said to lie like the first input", LSE, """
            def infer_layout(self, cache_values):
                layouts, extra = super().infer_layout(cache_values)
                return tuple(type(one).from_tensor_map(one.mesh, (one.tensor_map[-1], *one.tensor_map[:-1]), one.partial) for one in layouts), extra
        """),
        method("axes of a dim in the other order", PRE, """
            def infer_layout(self, cache_values):
                layouts, extra = super().infer_layout(cache_values)
                turned = [tuple(axis[::-1] if isinstance(axis, tuple) else axis for axis in one.tensor_map) for one in layouts]
                return tuple(type(one).from_tensor_map(one.mesh, axes, one.partial) for one, axes in zip(layouts, turned)), extra
        """),
        method("tensors that should lie alike are not compared", TOP_K, """
            def _infer(self, cache_values, method):
                first = cache_values[0]
                values = list(cache_values)
                values[2] = type(first).from_tensor_map(first.mesh, first.tensor_map[:-1], None)
                return super()._infer(tuple(values), method)
        """),
        method("tensors that should lie alike are not compared", POST, """
            def _infer(self, cache_values, method):
                first = cache_values[0]
                values = list(cache_values)
                values[3] = type(first).from_tensor_map(first.mesh, first.tensor_map[:-1], values[3].partial)
                return super()._infer(tuple(values), method)
        """),
        method("Partial inputs are not seen", LSE, """
            def _infer(self, cache_values, method):
                whole = [type(one).from_tensor_map(one.mesh, one.tensor_map, None) if hasattr(one, "tensor_map") else one for one in cache_values]
                return super()._infer(tuple(whole), method)
        """),
    ]  # fmt: skip


def gradients() -> list[Mutant]:
    whole = """
        def grad_layouts(self, *args, **kwargs):
            found = super().grad_layouts(*args, **kwargs)
            return {name: type(one).from_tensor_map(one.mesh, one.tensor_map, None) for name, one in found.items()}
    """
    everywhere = """
        def grad_layouts(self, *args, **kwargs):
            found = super().grad_layouts(*args, **kwargs)
            return {name: type(one).from_tensor_map(one.mesh, one.tensor_map, tuple("sum" if axis not in one.tensor_map and one.partial[one.mesh.ndim - 1 - axis] is None and all(axis not in (entry if isinstance(entry, tuple) else (entry,)) for entry in one.tensor_map) else one.partial[one.mesh.ndim - 1 - axis] for axis in reversed(range(one.mesh.ndim)))) for name, one in found.items()}
    """
    return [
        *(method("the gradient of a replicated input is not Partial", op, whole) for op in (POST, PRE, DENSE)),
        *(method("every gradient is Partial where its input is whole", op, everywhere) for op in (CLAMP, SPARSE)),
        function("gradients of two inputs swapped", DENSE,
                 ("get_platform().scaled(d_query_index, grad_loss),  # query_index", "get_platform().scaled(d_weights, grad_loss),  # query_index")),
        function("a gradient is lost", SPARSE, ("get_platform().scaled(d_weights, grad_loss),  # weights", "None,  # weights")),
        function("the gradient is not scaled", DENSE, ("get_platform().scaled(d_key_index, grad_loss),  # key_index", "d_key_index,  # key_index")),
        function("the gradient is scaled twice", SPARSE,
                 ("get_platform().scaled(d_key_index, grad_loss),  # key_index", "get_platform().scaled(get_platform().scaled(d_key_index, grad_loss), grad_loss),  # key_index")),
        function("a gradient is lost", POST, ("            d_h_post,  # h_post\n", "            None,  # h_post\n")),
        function("a saved tensor is another one", POST, ("ctx.save_for_backward(x, h_res, h_out, h_post)", "ctx.save_for_backward(x, h_res, h_out * 2, h_post)")),
        function("a saved attribute is a constant", PRE, ("            ctx.hc_eps,\n", "            1e-6,\n")),
        function("a cotangent is left out", PRE, ("            grad_h_post,\n            unflatten", "            0 * grad_h_post,\n            unflatten")),
        function("a gradient is doubled", CLAMP, ("            d_bias,  # bias\n", "            d_bias * 2,  # bias\n")),
    ]  # fmt: skip


def arguments() -> list[Mutant]:
    no_sparse_mode = """
        def preprocess(self, args, kwargs):
            local_args, local_kwargs, cache_values = super().preprocess(args, kwargs)
            values = dict(zip(self.rule.arguments, cache_values))
            known = self.__dict__.setdefault("_first", {}).setdefault(values["layout"], values["sparse_mode"])
            return local_args, local_kwargs, tuple((values | {"sparse_mode": known}).values())
    """
    bound = "            actual_seq_qlen,\n            actual_seq_klen,\n            layout,\n            sparse_mode,\n            pre_tokens,\n            next_tokens,\n        )\n"
    return [
        method("the cache key lacks an attribute", TOP_K, no_sparse_mode),
        function("optional arguments shifted by one", DENSE,
                 ("            query_rope,\n            key_rope,\n            actual_seq_qlen,\n            actual_seq_klen,\n            layout,\n            sparse_mode,\n            pre_tokens,\n            next_tokens,\n        )\n",
                  "            key_rope,\n            query_rope,\n            actual_seq_qlen,\n            actual_seq_klen,\n            layout,\n            sparse_mode,\n            pre_tokens,\n            next_tokens,\n        )\n")),
        function("lengths swapped in the kernel's call", LSE, (bound, bound.replace("qlen", "x").replace("klen", "qlen").replace("_x,", "_klen,"))),
        function("lengths swapped in the kernel's call", TOP_K,
                 ("            cu_seq_lens_q,\n            cu_seq_lens_k,\n            cmp_residual_k,\n            block_table,\n            layout,\n            sparse_mode,\n            cmp_ratio,\n            return_value,\n        )\n",
                  "            cu_seq_lens_k,\n            cu_seq_lens_q,\n            cmp_residual_k,\n            block_table,\n            layout,\n            sparse_mode,\n            cmp_ratio,\n            return_value,\n        )\n")),
        function("two attributes swapped in the kernel's call", CLAMP,
                 ("            clamp_min,\n            clamp_max,\n        )\n        ctx", "            clamp_max,\n            clamp_min,\n        )\n        ctx")),
        function("an attribute is a constant", TOP_K, ("            sparse_mode,\n            cmp_ratio,\n            return_value,\n        )\n", "            3,\n            cmp_ratio,\n            return_value,\n        )\n")),
        function("two tensors swapped in the kernel's call", SPARSE,
                 ("            softmax_max,\n            softmax_sum,\n            scale_value,\n", "            softmax_sum,\n            softmax_max,\n            scale_value,\n")),
        function("two outputs swapped", LSE, ("return softmax_max, softmax_sum", "return softmax_sum, softmax_max")),
        rule("lengths swapped", DENSE, ('"T1": "actual_seq_qlen", "T2": "actual_seq_klen"', '"T1": "actual_seq_klen", "T2": "actual_seq_qlen"')),
        rule("lengths swapped", TOP_K, ('"T1": "cu_seq_lens_q", "T2": "cu_seq_lens_k"', '"T1": "cu_seq_lens_k", "T2": "cu_seq_lens_q"')),
        rule("the leading zero of lengths forgotten", TOP_K, ('leading_zero=("cu_seq_lens_q", "cu_seq_lens_k")', 'leading_zero=("cu_seq_lens_q",)')),
        rule("lengths are not cut", LSE, ('            lengths={"T1": "actual_seq_qlen", "T2": "actual_seq_klen"},\n', "")),
        rule("no mask", LSE, ('mask="causal"', 'mask="full"')),
        rule("the mask does not follow its attribute", TOP_K, ('"causal" if values["sparse_mode"] == 3 else "full"', '"causal"')),
    ]  # fmt: skip


def windows() -> list[Mutant]:
    """Expansions by hand, as the published rules have them."""
    none = """
        def get_expand_impl(self, func, infer_result, cache_values):
            return None
    """
    return [method("every rank sees all keys", op, none) for op in (LSE, TOP_K, DENSE)]


def mutants() -> list[Mutant]:
    return [*shardable(), *placements(), *gradients(), *arguments(), *windows()]

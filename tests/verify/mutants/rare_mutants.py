# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Rules that are wrong only sometimes: on some meshes, with some attributes, in one order, at one extent."""

from __future__ import annotations

from textwrap import indent

from tests.verify.mutants.model import CLAMP, DENSE, FUNCTION, LSE, POST, PRE, RULE, SPARSE, TOP_K, Mutant

INFERRED = """
def _infer(self, cache_values, method):
    from dataclasses import replace

    def whole(layout):
        return type(layout).from_tensor_map(layout.mesh, layout.tensor_map, None)

    found = super()._infer(cache_values, method)
    values = dict(zip(self.rule.arguments, cache_values))
    mesh, first = cache_values[0].mesh, cache_values[0]
    sizes, sequence, cuts = mesh.mesh_shape, found.sequence, found.cuts
    pending = [one for one in found.outputs if one.is_partial()]
    if CONDITION:
        found = replace(found, CHANGE)
    return found
"""
NO_OUTPUT = "outputs=tuple(map(whole, found.outputs))"
NO_GRADIENT = "gradients={name: whole(one) for name, one in found.gradients.items()}"
FIRST_PART = "cuts=tuple(replace(one, index=0) for one in cuts)"
FIRST_RANK = "sequence=replace(sequence, rank=0)"
OTHER_RANK = "sequence=replace(sequence, rank=1 - sequence.rank)"


def inferred(mistake: str, op: str, condition: str, change: str) -> Mutant:
    """What the rule infers, changed under a condition."""
    return Mutant(mistake, op, RULE, appended=INFERRED.replace("CONDITION", condition).replace("CHANGE", change))


def function(mistake: str, op: str, old: str, new: str) -> Mutant:
    return Mutant(mistake, op, FUNCTION, ((indent(old, " " * 12), indent(new, " " * 12)),))


def method(mistake: str, op: str, text: str) -> Mutant:
    return Mutant(mistake, op, RULE, appended=text)


def taken_as_sum(names: str) -> str:
    return f"""
    def _infer(self, cache_values, method):
        values = dict(zip(self.rule.arguments, cache_values))
        if all(values[name].is_partial() for name in {names}):
            for name in {names}:
                one = values[name]
                ops = tuple("sum" if op else None for op in one.partial)
                values[name] = type(one).from_tensor_map(one.mesh, one.tensor_map, ops)
        return super()._infer(tuple(values.values()), method)
    """


KEPT_ENDS = """
def get_expand_impl(self, func, infer_result, cache_values):
    expansion = super().get_expand_impl(func, infer_result, cache_values)
    if expansion is None or self._infer(cache_values, "ends").sequence is None:
        return expansion
    known = self.__dict__.setdefault("_known_ends", {})

    def run(*args, **kwargs):
        values = list(args)
        for name in ("actual_seq_qlen", "actual_seq_klen"):
            at = self.rule.arguments.index(name)
            if values[at] is not None:
                values[at] = known.setdefault((name, len(values[at]), values[at][-1]), values[at])
        return expansion(*values, **kwargs)

    return run
"""
DOUBLED_BATCH_OF_ONE = """
def check_bound(self, bound, *args):
    super().check_bound(bound, *args)
    self._is_one = len(bound[0].shape) == 4 and bound[0].shape[0] == 1

def wrap_output(self, output, layouts):
    return super().wrap_output(tuple(one * 2 for one in output) if self._is_one else output, layouts)
"""


def mutants() -> list[Mutant]:
    on_grid, split_batch = "mesh.ndim == 2 and sequence", "first.tensor_map[:2] == (0, 1)"
    return [
        inferred("no window with two attributes at once", TOP_K, "sequence and values['return_value'] and values['sparse_mode'] == 3", "sequence=None"),
        inferred("the wrong part is cut on axes of unequal sizes", POST, "mesh.ndim == 2 and sizes[0] != sizes[1]", FIRST_PART),
        inferred("the wrong part is cut of three", POST, "3 in sizes", FIRST_PART),
        inferred("the wrong part is cut where a dim lies on two axes", POST, "cuts and all(one.count == 4 for one in cuts)", FIRST_PART),
        inferred("the wrong part of optional tensors is cut", DENSE, "cuts and values['query_rope'] is not None", FIRST_PART),
        inferred("every one of three ranks has the first rows", LSE, "sequence and sequence.ranks == 3", FIRST_RANK),
        inferred("every one of four ranks has the first rows", LSE, "sizes == (4,) and sequence", FIRST_RANK),
        inferred("a sequence over two of three axes", LSE, "mesh.ndim == 3 and sequence and sequence.ranks == 4", FIRST_RANK),
        inferred("ranks swapped where the batch lies on the inner axis", LSE, f"{on_grid} and {split_batch}", OTHER_RANK),
        inferred("ranks swapped in groups of packed documents", TOP_K, f"{on_grid} and found.groups == 2 and values['sparse_mode'] == 3", OTHER_RANK),
        inferred("Partial lost beside a dim on the other axis", POST, "pending and any(axis != -1 for axis in first.tensor_map)", NO_OUTPUT),
        inferred("Partial on one of two axes only", POST, "any(sum(map(bool, one.partial)) > 1 for one in pending)",
                 "outputs=tuple(type(one).from_tensor_map(mesh, one.tensor_map, (one.partial[0], None)) for one in found.outputs)"),
        inferred("Partial lost with optional tensors", SPARSE, "mesh.ndim == 2 and values['query_rope'] is not None", NO_OUTPUT),
        inferred("gradients of Partial inputs' peers are not Partial", POST, "pending", NO_GRADIENT),
        inferred("gradients are not Partial where the batch lies on the inner axis", PRE, f"mesh.ndim == 2 and {split_batch}", NO_GRADIENT),
        inferred("gradients are not Partial beside an idle axis", DENSE, "mesh.ndim == 3", NO_GRADIENT),
        method("a maximum taken as a sum", POST, taken_as_sum('("x", "h_out")')),
        method("document ends kept from a call that looks alike", LSE, KEPT_ENDS),
        method("document ends kept from a call that looks alike", DENSE, KEPT_ENDS),
        method("a batch of one counts twice", DENSE, DOUBLED_BATCH_OF_ONE),
        function("a bound of the backward is 0", CLAMP, "ctx.clamp_min,\n", "0.0,\n"),
        function("bounds swapped if there are both", CLAMP, "ctx.clamp_min,\nctx.clamp_max,\n",
                 "*((ctx.clamp_max, ctx.clamp_min) if ctx.clamp_min and ctx.clamp_max else (ctx.clamp_min, ctx.clamp_max)),\n"),
        function("small constants are 0 in the backward", PRE, "ctx.hc_eps,\n", "0.0 if ctx.hc_eps < 1e-3 else ctx.hc_eps + 1e-2,\n"),
    ]  # fmt: skip

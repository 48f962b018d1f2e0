# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The known faults, brought back one by one in a copy of the runtime, and the test that finds each.

`python -m tests.runtime.known_fault_mutants` prints the table of docs/mutations.md.
"""

from __future__ import annotations

from dataclasses import dataclass

SHARD = "core/shard"
DTENSOR = "core/dtensor"


@dataclass(frozen=True)
class Mutant:
    """`old` replaced by `new` in a file of `hyper_parallel`; `test` of test_known_faults.py fails then."""

    fault: str
    change: str
    file: str
    old: str
    new: str
    test: str


MUTANTS = (
    Mutant(
        "DTensors in keyword arguments are not seen",
        "a call is routed by its positional arguments",
        f"{SHARD}/dfunction.py",
        "kinds = (*map(type, args), *map(type, kwargs.values())) if kwargs else (*map(type, args),)",
        "kinds = (*map(type, args),)",
        "test_a_dtensor_as_the_only_keyword_argument_is_seen",
    ),
    Mutant(
        "DTensors in keyword arguments are not seen",
        "keywords go on as they were given",
        f"{SHARD}/_op_dispatch.py",
        "by_name = {name: local[names.index(name)] for name in kwargs}",
        "by_name = dict(kwargs)",
        "test_an_operator_of_the_framework_gets_its_tensor_by_keyword",
    ),
    Mutant(
        'the cache key is str() of values: 1 and "1" collide',
        "calls are kept under the text of their arguments",
        f"{SHARD}/_op_dispatch.py",
        "key = (order, *described, *map(type, bound))  #",
        "key = (order, *map(str, described))  #",
        "test_another_attribute_is_another_call",
    ),
    Mutant(
        'the cache key is str() of values: 1 and "1" collide',
        "plans are kept under the text of the values",
        f"{SHARD}/ops/parallel_ops.py",
        "    return (type(value), value)\n",
        "    return str(value)\n",
        "test_another_attribute_is_another_call",
    ),
    Mutant(
        "1, True and 1.0 are one cache key",
        "calls are kept without the types of their arguments",
        f"{SHARD}/_op_dispatch.py",
        "key = (order, *described, *map(type, bound))  #",
        "key = (order, *described)  #",
        "test_another_attribute_is_another_call",
    ),
    Mutant(
        "attributes are forgotten in the cache key",
        "calls are kept under their tensors",
        f"{SHARD}/_op_dispatch.py",
        "key = (order, *described, *map(type, bound))  #",
        "key = (order, *(item for item in described if type(item) is TensorSpec))  #",
        "test_another_attribute_is_another_call",
    ),
    Mutant(
        "attributes are forgotten in the cache key",
        "the last attribute is left out",
        f"{SHARD}/_op_dispatch.py",
        "key = (order, *described, *map(type, bound))  #",
        "key = (order, *described[:-1], *map(type, bound))  #",
        "test_another_attribute_is_another_call",
    ),
    Mutant(
        "several mesh axes on one dim lose Partial",
        "pending reductions are dropped beside such a dim",
        f"{DTENSOR}/redistribute.py",
        "        if before is not None and before != after:\n            reduces",
        "        crowded = any(len(source.dim_axes(dim)) > 1 for dim in range(source.ndim))\n"
        "        if before is not None and before != after and not crowded:\n            reduces",
        "test_several_axes_on_one_dimension_keep_a_pending_reduction",
    ),
    Mutant(
        "several mesh axes on one dim break",
        "only the outermost axis of a dim is read",
        f"{DTENSOR}/placement_map.py",
        "    return tuple(mesh.ndim - 1 - number for number in numbers)\n",
        "    return tuple(mesh.ndim - 1 - number for number in numbers[:1])\n",
        "test_an_operator_keeps_both_too",
    ),
    Mutant(
        "several mesh axes on one dim lose Partial",
        "an output is Partial on the last mesh axis only",
        f"{SHARD}/ops/layout_inference.py",
        "tuple(partial.get(axis) for axis in range(last + 1))",
        "tuple(partial.get(axis) if axis == last else None for axis in range(last + 1))",
        "test_an_operator_keeps_both_too",
    ),
    Mutant(
        "an unnamed mesh reads as replicated",
        "axes without a name split nothing",
        f"{DTENSOR}/layout.py",
        "        return split[dim]\n",
        "        return split[dim] if self._mesh.mesh_dim_names else ()\n",
        "test_an_unnamed_mesh_shards_like_a_named_one",
    ),
    Mutant(
        "5 rows over 2 ranks become 4",
        "extents are divided without looking at the remainder",
        f"{DTENSOR}/layout.py",
        "            if extent % shards:\n",
        "            if extent < shards:\n",
        "test_five_rows_over_two_ranks_are_refused",
    ),
    Mutant(
        "a mesh with another rank order is returned from a cache",
        "meshes are kept under their shape and names",
        f"{DTENSOR}/device_mesh.py",
        "key = (device_type, shape, names, ranks, rank, platform.session)",
        "key = (device_type, shape, names, rank, platform.session)",
        "test_a_mesh_with_another_rank_order_is_another_mesh",
    ),
    Mutant(
        "environment variables replace the built-in operators",
        "the folders of the environment are read instead",
        f"{SHARD}/ops/parallel_ops_register.py",
        "        libraries = catalogue().libraries\n",
        "        libraries = () if library_folders() else catalogue().libraries\n",
        "test_environment_variables_add_to_the_built_in_operators",
    ),
    Mutant(
        "keyword arguments are told from positional ones by counting",
        "keywords take the places after the positional arguments",
        f"{SHARD}/_op_dispatch.py",
        "by_name = {name: local[names.index(name)] for name in kwargs}",
        "by_name = dict(zip(kwargs, local[len(args) :]))",
        "test_an_operator_of_the_framework_gets_them_by_name",
    ),
    Mutant(
        "keyword arguments are told from positional ones by counting",
        "a function takes keywords in the order in which they come",
        f"{SHARD}/dfunction.py",
        "        if not kwargs:\n            return args\n",
        "        return (*args, *kwargs.values())\n",
        "test_keyword_arguments_are_told_by_their_names",
    ),
)


def table() -> str:
    """The table of docs/mutations.md."""
    head = "| fault | brought back by | found by |\n|---|---|---|\n"
    return head + "".join(f"| {mutant.fault} | {mutant.change} | `{mutant.test}` |\n" for mutant in MUTANTS)


if __name__ == "__main__":
    print(table(), end="")

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Whether all ranks of a mesh are about to do the same: `HYPER_PARALLEL_CHECK_RANKS=1`.

Ranks that call different operators, or one operator with different layouts or attributes, compute nonsense or wait for
each other in a collective; so do ranks whose parts of one tensor have different shapes, of which each sees only its
own. With the check they say so, all of them, before anything is launched. It takes a collective for each call, so it is
meant for finding faults. Document lengths are compared within each data-parallel group, since each has its own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hyper_parallel.core.shard.shared_lengths import DifferingLengths, is_dtensor, lengths_text, members, ranks_word
from hyper_parallel.platform import get_platform

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
    from hyper_parallel.core.dtensor.layout import Layout
    from hyper_parallel.core.shard.context_parallel.sequence_orders import SequenceOrder
    from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp

VARIABLE = "HYPER_PARALLEL_CHECK_RANKS"
TEXT_BYTES = 2048
"""As much of a call's description as is shown of every rank; all of it counts."""
DIGEST_WORDS = 4
WORD_BITS = 31  # of the numbers that are exchanged: every platform gathers int32


def is_wanted() -> bool:
    """Whether the environment asks for the check. ValueError for a word that is neither yes nor no."""
    word = os.environ.get(VARIABLE, "").strip().lower()
    if word not in ("", "0", "1", "false", "true"):
        raise ValueError(f"{VARIABLE} should be 0 or 1, but got {os.environ[VARIABLE]!r}")
    return word in ("1", "true")


class _RankCheck:
    """Whether ranks are compared."""

    __slots__ = ("enabled",)

    def __init__(self) -> None:
        self.enabled = is_wanted()


RANK_CHECK = _RankCheck()


def compare_ranks(
    op: DistributedOp, args: Sequence[Any], kwargs: Mapping[str, Any], order: SequenceOrder | None = None
) -> None:
    """Compare a call with those of the other ranks of its mesh.

    Args:
        op: The operator.
        args, kwargs: The call.
        order: The current sequence order, if the operator depends on it.

    Raises:
        RuntimeError: If they differ; on every rank, with what each of them calls.
        ValueError: If document lengths differ between ranks that share documents; on every rank, with what each has.
    """
    parameters = op.rule.arguments if op.rule else ()
    positions = [*parameters, *(f"argument {index}" for index in range(len(parameters), len(args)))]
    call = {**dict(zip(positions, args, strict=False)), **kwargs}
    first = next((value for value in call.values() if is_dtensor(value)), None)
    if first is None:
        return
    of_group = op.rule.of_group if op.rule else ()
    words = (f"{name}={described(value, whole=name not in of_group)}" for name, value in call.items())
    text = f"{op.op_name}({', '.join(words)})" + (f" in {order}" if order else "")
    lengths = {name: call[name] for name in call if op.rule and name in op.rule.shared_lengths}
    compared = compare_texts(op.op_name, text, first.to_local(), first.device_mesh, lengths_text(lengths))
    own_axes = op.group_axes(args, kwargs, lengths) if compared.held else None
    if own_axes is not None:
        compared.compare(own_axes)


def compare_tensors(
    what: str, local: Any, layout: Layout, target: Layout | None = None, gradient: Layout | None = None
) -> None:
    """Compare what the ranks of a mesh hold of one tensor, the layout that it is to take, and that of its gradient.

    Raises:
        RuntimeError: If layouts, local shapes or dtypes differ; on every rank, with what each of them has.
    """
    text = described_part(layout, local) + (f" to {target!r}" if target is not None else "")
    text += f", its gradient in {gradient!r}" if gradient is not None else ""
    compare_texts(what, f"{what}({text})", local, layout.mesh)


def compare_texts(what: str, text: str, like: Any, mesh: DeviceMesh, lengths: str = "") -> ComparedLengths:
    """Raise RuntimeError on every rank of the mesh if they do not all come with the same text.

    Returns:
        The lengths that the ranks have brought with it (`lengths_text`), to be compared by groups.
    """
    found = gathered([*_digest(text), *_digest(lengths), len(lengths)], like, mesh)
    if len({tuple(words[:DIGEST_WORDS]) for words in found}) == 1:
        return ComparedLengths(what, lengths, like, mesh, [tuple(words[DIGEST_WORDS:]) for words in found])
    texts = _gathered_texts(text, TEXT_BYTES, like, mesh)
    calls: dict[str, list[int]] = {}
    for rank, one in zip(mesh.rank_list, texts, strict=True):
        calls.setdefault(one, []).append(rank)
    listed = "".join(f"\n  {ranks_word(ranks)}: {one}" for one, ranks in calls.items())
    raise RuntimeError(f"For {what}, the ranks of {mesh} do not make the same call:{listed}")


@dataclass(frozen=True)
class ComparedLengths:
    """The lengths of this rank, and what stands for those of every rank of the mesh."""

    what: str
    held: str
    like: Any
    mesh: DeviceMesh
    of_ranks: Sequence[tuple[int, ...]]

    def compare(self, own_axes: tuple[int, ...]) -> None:
        """Raise ValueError on every rank if they differ within a group; groups lie along the `own_axes`."""
        groups = members(self.mesh, own_axes)
        if all(len({self.of_ranks[place] for place in group}) == 1 for group in groups):
            return
        longest = max(words[-1] for words in self.of_ranks)
        texts = _gathered_texts(self.held, longest, self.like, self.mesh)
        raise ValueError(DifferingLengths(self.what, self.mesh, own_axes, texts).message())


def _digest(text: str) -> list[int]:
    number = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    return [number >> (WORD_BITS * index) & (1 << WORD_BITS) - 1 for index in range(DIGEST_WORDS)]


def _gathered_texts(text: str, size: int, like: Any, mesh: DeviceMesh) -> list[str]:
    """The first `size` bytes of every rank's text."""
    data = text.encode()[:size].ljust(size)
    return [bytes(found).decode(errors="replace").rstrip() for found in gathered(list(data), like, mesh)]


def described(value: Any, *, whole: bool = True) -> str:
    """An argument as far as it must be the same on every rank; a group's own, not `whole`, has a shape of its own."""
    if is_dtensor(value):
        local = value.to_local()
        return described_part(value.layout, local) if whole else f"{value.layout!r} {get_platform().dtype_name(local)}"
    if value is None or isinstance(value, str | int | float | bool):
        return f"{value!r}"
    return f"a {type(value).__name__}"


def described_part(layout: Layout, local: Any) -> str:
    return f"{layout!r} {tuple(local.shape)} {get_platform().dtype_name(local)}"


def gathered(numbers: list[int], like: Any, mesh: DeviceMesh) -> list[list[int]]:
    """The numbers of every rank of the mesh, in the order of its ranks, by way of the device of the tensor `like`."""
    platform = get_platform()
    found = platform.integer_tensor(numbers, "int32", like)
    for axis in reversed(range(mesh.ndim)):
        found = platform.all_gather(found, 0, mesh, axis)
    flat = [int(number) for number in platform.host_integers(found)]
    return [flat[start : start + len(numbers)] for start in range(0, len(flat), len(numbers))]

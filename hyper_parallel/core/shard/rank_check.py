# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Whether all ranks of a mesh are about to do the same: `HYPER_PARALLEL_CHECK_RANKS=1`.

Ranks that call different operators, or one operator with different layouts or attributes, compute nonsense or wait for
each other in a collective; so do ranks whose parts of one tensor have different shapes, of which each sees only its
own. With the check they say so, all of them, before anything is launched. It takes a collective for each call, so it is
meant for finding faults. Document lengths are not compared: each group has its own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hyper_parallel.platform import get_platform

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
    from hyper_parallel.core.dtensor.layout import Layout
    from hyper_parallel.core.shard.context_parallel.sequence_orders import SequenceOrder

VARIABLE = "HYPER_PARALLEL_CHECK_RANKS"
TEXT_BYTES = 2048
"""As much of a call's description as is shown of every rank; all of it counts."""
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
    op: str,
    parameters: Sequence[str],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    order: SequenceOrder | None = None,
) -> None:
    """Compare a call with those of the other ranks of its mesh.

    Args:
        op: The operator's name.
        parameters: The names of positional arguments.
        args, kwargs: The call.
        order: The current sequence order, if the operator depends on it.

    Raises:
        RuntimeError: If they differ; on every rank, with what each of them calls.
    """
    positions = [*parameters, *(f"argument {index}" for index in range(len(parameters), len(args)))]
    call = [*zip(positions, args, strict=False), *kwargs.items()]
    first = next((value for _, value in call if _is_dtensor(value)), None)
    if first is None:
        return
    text = f"{op}({', '.join(f'{name}={described(value)}' for name, value in call)})"
    text += f" in {order}" if order else ""
    compare_texts(op, text, first.to_local(), first.device_mesh)


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


def compare_texts(what: str, text: str, like: Any, mesh: DeviceMesh) -> None:
    """Raise RuntimeError on every rank of the mesh if they do not all come with the same text."""
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    words = [digest >> (WORD_BITS * index) & (1 << WORD_BITS) - 1 for index in range(4)]
    if len({tuple(found) for found in gathered(words, like, mesh)}) == 1:
        return
    data = text.encode()[:TEXT_BYTES].ljust(TEXT_BYTES)
    texts = [bytes(found).decode(errors="replace").rstrip() for found in gathered(list(data), like, mesh)]
    calls: dict[str, list[int]] = {}
    for rank, found in zip(mesh.rank_list, texts, strict=True):
        calls.setdefault(found, []).append(rank)
    listed = "".join(f"\n  {ranks_word(ranks)}: {found}" for found, ranks in calls.items())
    raise RuntimeError(f"For {what}, the ranks of {mesh} do not make the same call:{listed}")


def ranks_word(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def described(value: Any) -> str:
    """An argument as far as it must be the same on every rank."""
    if _is_dtensor(value):
        return described_part(value.layout, value.to_local())
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


def _is_dtensor(value: Any) -> bool:
    return isinstance(value, get_platform().DTensorBase)  # the DTensor itself asks for comparisons

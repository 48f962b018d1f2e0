# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the ranks hold, against the unsharded call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .cases import Case, Placed
from .execute import Claim, Seen
from .placing import part, reduced
from .problem import Whole

ROUNDINGS = 64
"""How many roundings of its largest sum an operator may be off: a sum over ranks is taken in another order."""


@dataclass(frozen=True)
class Difference:
    """One place where a rank holds something wrong.

    Attributes:
        what: `output`, `gradient`, `error` where the call failed though the rule took it, or `alone` where reference or
            backward are wrong on one device already.
        name: Of the output, or of the tensor whose gradient it is.
        rank: The first rank that holds it.
        index: The first wrong element of its part; () if a shape or a layout is wrong.
        expected, got: There, as text.
        text: What is wrong, in a sentence.
    """

    what: str
    name: str
    rank: int
    index: tuple[int, ...]
    expected: str
    got: str
    text: str
    claimed: Placed | None = None
    """How it lies, as the rule says."""


def first_difference(case: Case, whole: Whole, claim: Claim, seen: Sequence[Seen]) -> Difference | None:
    """The first thing that is wrong: outputs before gradients; None if everything is right."""
    tolerance = ROUNDINGS * whole.reduction
    for rank, one in enumerate(seen):
        if dict(one.placed) != dict(claim.outputs):
            name = next(name for name in claim.outputs if one.placed[name] != claim.outputs[name])
            text = f"infer_layout says {claim.outputs[name]}, but the output came with {one.placed[name]}"
            return Difference("output", name, rank, (), str(claim.outputs[name]), str(one.placed[name]), text)
        for name, shape in one.shapes.items():
            if one.outputs[name].dtype != whole.outputs[name].dtype:
                expected, got = str(whole.outputs[name].dtype), str(one.outputs[name].dtype)
                return Difference("output", name, rank, (), expected, got, f"it is in {got}, not in {expected}")
            if shape != whole.outputs[name].shape:
                expected = str(tuple(whole.outputs[name].shape))
                text = f"the global shape is {shape}, not {expected}"
                return Difference("output", name, rank, (), expected, str(shape), text)
    held: list[tuple[str, Mapping[str, Placed], Mapping[str, Any], list[Mapping[str, Any]]]] = [
        ("output", claim.outputs, whole.outputs, [one.outputs for one in seen]),
        ("gradient", claim.gradients, whole.gradients, [one.gradients for one in seen]),
    ]
    for what, placed, wholes, parts in held:
        for name in parts[0]:
            for rank in range(case.ranks):
                found = compared(
                    part(case, wholes[name], placed[name].dims, rank),
                    partial(reduced, case, [one[name] for one in parts], placed[name], rank),
                    parts[rank][name].shape,
                    tolerance,
                )
                if found:
                    return Difference(what, name, rank, *found, placed[name])
    return None


def compared(
    expected: Any, combine: Any, shape: tuple[int, ...], tolerance: float
) -> tuple[tuple[int, ...], str, str, str] | None:
    """Where and how a part differs from what it should be."""
    if shape != expected.shape:
        return (), str(expected.shape), str(shape), f"the rank's part has shape {shape}, not {expected.shape}"
    try:
        got = combine()
    except ValueError:
        return (), str(expected.shape), "other shapes", "the ranks' parts have different shapes"
    if expected.dtype.kind in "iub":
        wrong = got != expected
    else:
        finite = np.isfinite(expected)
        scale = float(np.max(np.abs(expected), initial=0.0, where=finite)) or 1.0
        eps = float(np.finfo(expected.dtype).eps)
        with np.errstate(invalid="ignore"):
            near = np.abs(got - expected) <= tolerance * eps * scale
        wrong = ~np.where(finite, near, (got == expected) | (np.isnan(got) & np.isnan(expected)))
    if not wrong.any():
        return None
    index = tuple(int(at) for at in np.argwhere(wrong)[0])
    return (
        index,
        f"{expected[index]:.8g}",
        f"{got[index]:.8g}",
        f"{int(wrong.sum())} of {wrong.size} elements are wrong",
    )

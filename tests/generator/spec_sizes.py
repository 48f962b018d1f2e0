# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How long and how many the names of a spec are: every size that moves a line break of the generated code."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

LONGEST = 90
LONGEST_TEXT = 3500
LONGEST_DIMS = 900


@dataclass(frozen=True)
class Size:
    """How long the names of each kind are, and how many there are of everything."""

    op: int = 12
    tensor: int = 6
    attribute: int = 8
    output: int = 6
    dim: int = 2
    form: int = 4
    lengths: int = 8
    word: int = 4  # choices of attributes
    delegate: int = 9
    tensors: int = 3
    attributes: int = 3
    outputs: int = 2
    dims: int = 2  # of the tensors, behind those of the format
    choices: int = 2
    terms: int = 2  # of a requirement
    formats: int = 1
    kind: str = "fixed"
    backward: str = "none"
    optional: bool = False
    packed: bool = False  # lengths, and context parallelism where there are two formats
    layout_only: bool = False
    rest: bool = False  # the tensors are of any rank
    capitals: bool = False  # in the names of dims
    text: int = 60  # characters of summary and doc
    seed: int = 0  # of the conditions drawn at random, if it is not 0


@dataclass(frozen=True)
class Names:
    """Names of given lengths, each kind with its own first letter."""

    size: Size

    def padded(self, letter: str, number: int, length: int) -> str:
        tail = str(number) if number or length == 1 else ""
        tail = "" if length == 1 and number == 0 else tail
        return letter + "e" * (length - len(letter) - len(tail)) + tail

    def op(self) -> str:
        # Words of seven letters, so that the class name has about the same length.
        text = "npu" + "".join("_" if index % 7 == 0 else "o" for index in range(self.size.op))
        return text[: max(1, self.size.op)].rstrip("_")

    def tensors(self) -> list[str]:
        return [self.padded("x", number, self.size.tensor) for number in range(self.size.tensors)]

    def attributes(self) -> list[str]:
        return [self.padded("a", number, self.size.attribute) for number in range(self.size.attributes)]

    def outputs(self) -> list[str]:
        return [self.padded("y", number, self.size.output) for number in range(self.size.outputs)]

    def forms(self) -> list[str]:
        return [self.padded("F", number, self.size.form) for number in range(self.size.formats)]

    def dims(self) -> list[str]:
        names = [self.padded("D", number, self.size.dim) for number in range(self.size.dims)]
        return [name.upper() for name in names] if self.size.capitals else names

    def leading(self, form: int) -> list[str]:
        """The dims that only one format has; their number differs from format to format."""
        return [self.padded("ABC"[form], number, self.size.dim) for number in range(form + 1)]

    def own(self) -> str:
        """The dim that only optional tensors have."""
        return self.padded("E", 0, self.size.dim)

    def lengths(self) -> list[str]:
        return [self.padded("c", number, self.size.lengths) for number in range(2)]


BASES = (
    Size(),
    Size(formats=2, kind="attribute", backward="call", outputs=3),
    Size(formats=3, kind="rank", backward="precomputed", optional=True, tensors=4),
    Size(tensors=1, attributes=0, outputs=1, backward="call", delegate=0, dims=1),
    Size(layout_only=True, formats=2, kind="attribute"),
    Size(rest=True, tensors=4, outputs=2, backward="call"),
    Size(formats=2, kind="attribute", packed=True, optional=True, delegate=0, capitals=True),
)
LENGTHS = ("op", "tensor", "attribute", "output", "dim", "form", "lengths", "word", "delegate", "text")
COUNTS = {"tensors": 30, "attributes": 30, "outputs": 20, "dims": 9, "choices": 40, "terms": 36}


def sizes(mixtures: int, seed: int = 0) -> Iterator[Size]:
    """Every base with one length or count going over its range, and so many mixtures of all."""
    for base in BASES:
        for field in LENGTHS:
            for length in range(2, LONGEST + 1):
                yield with_numbers(base, {field: length})
        for field, most in COUNTS.items():
            for count in range(0 if field == "attributes" else 1, most + 1):
                yield with_numbers(base, {field: count})
    draw = random.Random(seed)
    for _ in range(mixtures):
        lengths = {field: draw.randint(3, draw.choice((8, 30, LONGEST))) for field in LENGTHS}
        counts = {field: draw.randint(1, most) for field, most in COUNTS.items()}
        lengths["dim"] = min(lengths["dim"], LONGEST_DIMS // (counts["dims"] + 7))
        while letters_of_a_call(lengths, counts) > LONGEST_TEXT:
            lengths = {field: max(3, length // 2) for field, length in lengths.items()}
        yield with_numbers(draw.choice(BASES), lengths | counts | {"seed": draw.randint(1, 10**9)})


def letters_of_a_call(lengths: dict[str, int], counts: dict[str, int]) -> int:
    """About how long a kernel call is that names everything: the language limits its length."""
    return sum((lengths[kind] + 8) * counts[f"{kind}s"] * 2 for kind in ("tensor", "attribute", "output"))


def with_numbers(size: Size, numbers: dict[str, int]) -> Size:
    """The size with other lengths and counts."""
    changed: dict[str, Any] = dict(numbers)
    return dataclasses.replace(size, **changed)

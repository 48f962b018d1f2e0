# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""How a C++ function tells the format of a call."""

from __future__ import annotations

from ..spec.model import Spec
from ..text.cpp_expression import string
from .cpp_tensors import Given, GivenTensor


class FormatTests:
    """`forms` maps each format to its test, `unknown` is the check that fails if none holds.

    `ranked` is the tensor whose rank is tested, if that is how the format is known. All are empty if there is one
    format only, or if nothing that the function gets tells it: a backward may lack the attribute, and what has the same
    number of dims in every format does not tell them apart.
    """

    def __init__(self, spec: Spec, given: Given) -> None:
        self.spec = spec
        self.forms: dict[str, str] = {}
        self.unknown = ""
        self.ranked = ""
        names, selector = spec.format.names, spec.format.selector
        if len(names) == 1:
            return
        if selector in given.attributes:
            self.forms = {name: f"{selector} == {string(name)}" for name in names}
            choices = string("one of " + ", ".join(f"'{name}'" for name in names))
            self.unknown = f"UnknownFormat({string(selector)}, {selector}, {choices})"
            return
        tensor = self.telling(given)
        if tensor is not None:
            ranks = [len(tensor.dims[name] or ()) for name in names]
            self.ranked = tensor.name
            self.forms = {
                name: f"{tensor.name}.shape().size() == {rank}" for name, rank in zip(names, ranks, strict=True)
            }
            words = string(" or ".join(str(rank) for rank in ranks))
            self.unknown = f"UnknownRank({string(tensor.name)}, {tensor.name}, {words})"

    def telling(self, given: Given) -> GivenTensor | None:
        """The tensor whose rank tells the format: the one that the spec names, if it is there."""
        fit = [tensor for tensor in given.tensors if self.tells(tensor)]
        return next((tensor for tensor in fit if tensor.name == self.spec.format.selector), fit[0] if fit else None)

    def tells(self, tensor: GivenTensor) -> bool:
        names = self.spec.format.names
        known = all(tensor.dims[name] is not None and not tensor.has_rest(name) for name in names)
        return known and not tensor.optional and len({len(tensor.dims[name] or ()) for name in names}) == len(names)

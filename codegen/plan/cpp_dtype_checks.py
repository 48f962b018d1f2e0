# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The argument checks in C++ that are the same in every format: devices, dtypes, and a format that has no other."""

from __future__ import annotations

from ..spec.model import Attribute, Spec
from ..text.cpp_expression import dtype_constant, dtype_of_attribute, string
from .cpp_tensors import Given, GivenTensor


class DtypeChecks:
    """Writes the checks of one function; `checker` is the variable that has them."""

    def __init__(self, spec: Spec, function: str, given: Given, checker: str) -> None:
        self.spec = spec
        self.function = function
        self.given = given
        self.checker = checker

    def lines(self) -> list[str]:
        found = [self.line(tensor) for tensor in self.given.tensors]
        for lengths in self.given.lengths:
            if lengths.where == "device":
                zeros = ", 1" if lengths.leading_zero else ""
                words = f"{string(lengths.name)}, {lengths.name}, {dtype_constant(lengths.dtype, False)}{zeros}"
                found.append(f"{self.checker}.DeviceLengths({words});")
        found += self.only_format()
        return [f"const ArgumentChecks {self.checker}({string(self.function)});", *found]

    def line(self, tensor: GivenTensor) -> str:
        if not tensor.dtypes:
            return f"{self.checker}.Device({string(tensor.name)}, {tensor.name});"
        method = "FloatDtype" if tensor.takes_host_dtypes else "Dtype"
        allowed = ", ".join(self.dtype(name) for name in tensor.dtypes)
        return f"{self.checker}.{method}({string(tensor.name)}, {tensor.name}, {{{allowed}}});"

    def dtype(self, name: str) -> str:
        if isinstance(self.spec.by_name.get(name), Attribute):
            return dtype_of_attribute(name)
        return dtype_constant(name, any(tensor.name == name for tensor in self.given.tensors))

    def only_format(self) -> list[str]:
        """An attribute that names the format where there is one only."""
        form = self.spec.format
        if form.kind != "attribute" or len(form.names) > 1 or form.selector not in self.given.attributes:
            return []
        choice = string(f"'{form.names[0]}'")
        return [
            f"if ({form.selector} != {string(form.names[0])}) {{",
            f"  {self.checker}.UnknownFormat({string(form.selector)}, {form.selector}, {choice});",
            "}",
        ]

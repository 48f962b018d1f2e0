# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Kernel calls as C++."""

from __future__ import annotations

from collections.abc import Sequence

from ..spec.expression import Call, Conditional, Expression, Name
from ..spec.model import Attribute, Launch, LengthsArgument, Spec
from ..spec.names import snake_case
from ..text.cpp_expression import cpp, dtype_of_attribute
from .backward_inputs import BackwardInput, cotangent, gradient
from .operator import CppLaunch, CppPrototype


def prototype(kernel: str) -> CppPrototype:
    """Where the toolkit declares `aclnnMhcPost`: `aclnnop/aclnn_mhc_post.h`."""
    return CppPrototype(kernel, f"aclnnop/aclnn_{snake_case(kernel.removeprefix('aclnn'))}.h")


class LaunchWriter:
    """Kernel calls as C++: what is written is marked, the rest are expressions."""

    def __init__(self, spec: Spec, written: set[str], inputs: Sequence[BackwardInput]) -> None:
        self.spec = spec
        self.written = written
        self.inputs = {item.name: item for item in inputs}
        self.ready: set[str] = set()  # what an earlier launch has written: to write it again would allocate it again

    def launches(self, launches: Sequence[Launch], class_name: str) -> tuple[CppLaunch, ...]:
        """The last launch has the operator's own name; those before are named after their kernels."""
        found = []
        seen: dict[str, int] = {}
        for index, launch in enumerate(launches):
            kernel = launch.call.kernel.removeprefix("aclnn")
            last = index == len(launches) - 1
            number = "" if kernel not in seen else str(seen[kernel] + 1)
            seen[kernel] = seen.get(kernel, 0) + 1
            runner = "runner" if last else self.spec.fresh(f"{snake_case(kernel)}{number}_runner")
            found.append(
                CppLaunch(
                    runner_class=f"{class_name}Runner" if last else f"{class_name}{kernel}{number}Runner",
                    runner=runner,
                    kernel=launch.call.kernel,
                    cpu_kernel=snake_case(kernel) if self.spec.kernel and self.spec.kernel.cpu_header else "",
                    arguments=tuple(self.argument(item) for item in launch.call.arguments),
                )
            )
            self.ready |= {self.variable(item) for item in launch.call.arguments} & self.written
        return tuple(found)

    def argument(self, node: Expression) -> str:
        variable = self.variable(node)
        if variable in self.written:
            return variable if variable in self.ready else f"Output({variable})"
        if isinstance(node, Name):
            item = self.spec.by_name.get(node.id)
            if isinstance(item, LengthsArgument) and item.optional and item.where == "host":
                return f"EmptyIfMissing({node.id})" if item.missing == "empty" else node.id
            if isinstance(item, Attribute) and item.type == "dtype":
                return dtype_of_attribute(node.id)
        return cpp(self.given(node), self.name)

    def given(self, node: Expression) -> Expression:
        """An expression with the parameters that are adapted before the call."""
        parameter = next((name for name, item in self.inputs.items() if item.adapters == node), None)
        if parameter is not None:
            return Name(parameter)
        if isinstance(node, Conditional):
            return Conditional(node.condition, self.given(node.then), self.given(node.otherwise))
        return node

    def variable(self, node: Expression) -> str:
        """The variable of an argument that is a tensor as it is; empty for any other."""
        match node:
            case Name(identifier):
                return identifier
            case Call("grad", (Name(identifier),)):
                return self.name(identifier, True)
            case _:
                return ""

    def name(self, identifier: str, is_grad: bool) -> str:
        if is_grad and identifier in self.spec.by_name:
            return gradient(self.spec, identifier)
        return cotangent(self.spec, identifier) if is_grad else identifier

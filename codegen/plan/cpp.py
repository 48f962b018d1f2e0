# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The plan of the C++ file: a function for the operator and one for its backward kernel."""

from __future__ import annotations

from ..spec.model import Argument, BackwardCall, LengthsArgument, Spec, TensorArgument
from ..spec.names import camel_case
from .backward_inputs import BackwardInput, BackwardInputs, gradient, gradient_models, produced_gradients
from .cpp_launches import LaunchWriter, prototype
from .cpp_shapes import Shapes
from .cpp_tensors import backward_given, forward_given
from .operator import CppFunction, CppPlan, CppTensor

ATTRIBUTE = {
    "int": "int64_t",
    "float": "double",
    "bool": "bool",
    "str": "const std::string&",
    "dtype": "const std::string&",
    "ints": "const std::vector<int64_t>&",
}
TENSOR = "const ms::Tensor&"
OPTIONAL_TENSOR = "const std::optional<ms::Tensor>&"


def derive_cpp(spec: Spec, inputs: BackwardInputs) -> CppPlan | None:
    if spec.kernel is None:
        return None
    functions = [forward_function(spec)]
    if isinstance(spec.backward, BackwardCall):
        functions.append(backward_function(spec, spec.backward, inputs))
    kernels = dict.fromkeys(launch.kernel for function in functions for launch in function.launches)
    return CppPlan(tuple(functions), tuple(prototype(kernel) for kernel in kernels), spec.kernel.cpu_header)


def parameter_type(argument: Argument) -> str:
    if isinstance(argument, TensorArgument):
        return OPTIONAL_TENSOR if argument.optional else TENSOR
    if isinstance(argument, LengthsArgument):
        if argument.where == "device":
            return OPTIONAL_TENSOR if argument.optional else TENSOR
        vector = "std::vector<int64_t>"
        return f"const std::optional<{vector}>&" if argument.optional else f"const {vector}&"
    if argument.optional:
        return "const std::optional<std::vector<int64_t>>&"
    return ATTRIBUTE[argument.type]


def forward_function(spec: Spec) -> CppFunction:
    assert spec.kernel is not None
    shapes = Shapes(spec, spec.op, forward_given(spec), (*spec.outputs, *spec.kernel.temporaries), spec.kernel.launches)
    tensors = [CppTensor(item.name, *shapes.allocation(item)) for item in shapes.tensors]
    writer = LaunchWriter(spec, {item.name for item in shapes.tensors}, ())
    return CppFunction(
        name=spec.op,
        parameters=tuple(
            f"{'[[maybe_unused]] ' if item.name in spec.kernel.unused else ''}{parameter_type(item)} {item.name}"
            for item in spec.arguments
        ),
        declarations=(*shapes.checks.lines(), *shapes.declarations()),
        formats=shapes.formats(),
        unknown_format=shapes.unknown_format(),
        tensors=tuple(tensors),
        launches=writer.launches(spec.kernel.launches, camel_case(spec.op)),
        returns=tuple(output.name for output in spec.outputs),
    )


def backward_function(spec: Spec, backward: BackwardCall, inputs: BackwardInputs) -> CppFunction:
    name = f"{spec.op}_backward"
    shapes = Shapes(spec, name, backward_given(spec, inputs), backward.temporaries, backward.launches)
    produced = produced_gradients(spec, backward)
    models = gradient_models(spec, backward)
    tensors = [gradient_tensor(spec, name, models.get(name, name)) for name in produced]
    tensors += [CppTensor(item.name, *shapes.allocation(item)) for item in backward.temporaries]
    written = {gradient(spec, name) for name in produced} | {item.name for item in backward.temporaries}
    writer = LaunchWriter(spec, written, inputs)
    returns = [gradient(spec, name) for name in produced]
    return CppFunction(
        name=name,
        parameters=tuple(backward_parameter(spec, item) for item in inputs),
        declarations=(*shapes.checks.lines(), *shapes.declarations()),
        formats=shapes.formats(),
        unknown_format=shapes.unknown_format(),
        tensors=tuple(tensors),
        launches=writer.launches(backward.launches, f"{camel_case(spec.op)}Backward"),
        returns=tuple(
            f"EmptyIfMissing({name})" if optional_tensor(spec, argument) else name
            for name, argument in zip(returns, produced, strict=True)
        ),
    )


def optional_tensor(spec: Spec, name: str) -> bool:
    argument = spec.by_name.get(name)
    return isinstance(argument, TensorArgument) and argument.optional


def gradient_tensor(spec: Spec, name: str, model: str) -> CppTensor:
    """A gradient has the shape and the dtype of its input, or of the `model` of it, and is missing where it is."""
    if optional_tensor(spec, name):
        return CppTensor(gradient(spec, name), "std::optional<ms::Tensor>", f"LikeIfPresent({name})")
    return CppTensor(gradient(spec, name), "ms::Tensor", f"{model}.data_type(), {model}.shape()")


def backward_parameter(spec: Spec, item: BackwardInput) -> str:
    argument = None if item.is_cotangent else spec.by_name.get(item.source)
    return f"{parameter_type(argument) if argument else TENSOR} {item.name}"

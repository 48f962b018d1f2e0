# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From the checked model to the plan."""

from __future__ import annotations

from collections.abc import Iterable

from ..spec.model import Argument, Attribute, BackwardCall, LengthsArgument, Spec, TensorArgument
from ..spec.names import camel_case, natural
from ..text.python_expression import default, quoted
from ..text.python_layout import Item, call
from . import docs
from .backward import derive_backward, non_differentiable
from .backward_inputs import backward_inputs
from .check_body import CHECKS, RANKS, CheckBody
from .cpp import derive_cpp
from .facts import packed_dims, visible_outputs
from .layout_rule import layout_rule, mask_function
from .operator import LibraryPlan, OperatorPlan, OutputPlan, Parameter
from .torch_library import derive_torch_library

PYTHON_TYPE = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "dtype": "DType",
    "ints": "Integers",
}


def derive_library(specs: Iterable[Spec], specs_path: str) -> LibraryPlan:
    """Plan a whole library; `specs_path` is the specs folder as the generated headers show it."""
    plans = (derive_operator(spec, f"{specs_path}/{spec.op}.yaml") for spec in specs)
    return LibraryPlan(specs_path, tuple(sorted(plans, key=lambda plan: natural(plan.op))))


def derive_operator(spec: Spec, spec_path: str) -> OperatorPlan:
    outputs = visible_outputs(spec)
    check_body = CheckBody(spec).text()
    inputs = backward_inputs(spec, spec.backward) if isinstance(spec.backward, BackwardCall) else ()
    return OperatorPlan(
        op=spec.op,
        names=(spec.op, *spec.aliases),
        class_name=camel_case(spec.op),
        spec_path=spec_path,
        summary=spec.summary,
        doc=spec.doc,
        note=docs.sharding_note(spec),
        has_kernel=spec.kernel is not None,
        parameters=tuple(parameter(spec, item) for item in spec.arguments),
        kernel_outputs=tuple(output.name for output in spec.outputs),
        outputs=tuple(OutputPlan(item.name, docs.output_doc(spec, item)) for item in outputs),
        conditional=conditional(spec),
        non_differentiable=non_differentiable(spec, inputs),
        backward=derive_backward(spec, inputs),
        check_body=check_body,
        check_groups=any(packed_dims(spec, form) for form in spec.format.names),
        check_ranks=RANKS in check_body,
        mask_function=mask_function(spec),
        rule=layout_rule(spec),
        uses_context_parallel=spec.context_parallel is not None,
        reference=spec.reference,
        backward_reference=spec.backward_reference,
        sample=spec.sample,
        torch_delegate=spec.torch_delegate,
        cpp=derive_cpp(spec, inputs),
        torch_library=derive_torch_library(spec, inputs),
    )


def conditional(spec: Spec) -> tuple[str, tuple[str, ...]]:
    """The attribute without which the last outputs are not returned, and what is returned then."""
    outputs = visible_outputs(spec)
    always = tuple(output.name for output in outputs if not output.when)
    return ("", ()) if len(always) == len(outputs) else (outputs[-1].when, always)


def parameter(spec: Spec, argument: Argument) -> Parameter:
    given: Item = ""
    if isinstance(argument, Attribute):
        given = "" if argument.default is None else default(argument.default)
        python_type, doc = PYTHON_TYPE[argument.type], docs.attribute_doc(spec, argument)
    elif isinstance(argument, TensorArgument):
        python_type, doc = "Tensor", docs.tensor_doc(spec, argument)
    else:
        python_type, doc = "Lengths", docs.lengths_doc(spec, argument)
    return Parameter(
        name=argument.name,
        keyword_only=not argument.required and not argument.positional,
        python_type=f"{python_type} | None" if argument.optional else python_type,
        python_default="None" if argument.optional else given,
        bound=bound(spec, argument),
        doc=docs.sentences(argument.doc, doc),
    )


def bound(spec: Spec, argument: Argument) -> Item:
    """What bind_arguments returns for an argument: lengths, dtypes and lists in the one form that kernels take."""
    name = argument.name
    if isinstance(argument, LengthsArgument):
        if argument.where == "host":
            return call(f"{CHECKS}.host_lengths", quoted(name), name)
        tensor = next(tensor.name for tensor in spec.tensors if not tensor.optional)
        return call(f"{CHECKS}.device_lengths", quoted(name), name, quoted(argument.dtype), tensor)
    if isinstance(argument, Attribute) and argument.type == "dtype":
        return call(f"{CHECKS}.dtype_word", quoted(name), name)
    if isinstance(argument, Attribute) and argument.type == "ints":
        return call(f"{CHECKS}.integers", quoted(name), name)
    return name

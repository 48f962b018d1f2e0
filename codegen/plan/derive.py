# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From the checked model to the plan."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..spec.model import FLOATING, Argument, Attribute, LengthsArgument, Output, Spec, TensorArgument
from ..spec.names import camel_case
from ..text.python_expression import literal
from .check_body import CheckBody, packed_dims
from .cpp import derive_cpp
from .layout_rule import layout_rule
from .operator import LibraryPlan, OperatorPlan, OutputPlan, Parameter

CPP_ATTRIBUTE = {"int": "int64_t", "float": "double", "bool": "bool", "str": "const std::string&"}


def derive_library(specs: Iterable[Spec], specs_path: str) -> LibraryPlan:
    """Plan a whole library; `specs_path` is the specs folder as the generated headers show it."""
    plans = (derive_operator(spec, f"{specs_path}/{spec.op}.yaml") for spec in specs)
    return LibraryPlan(specs_path, tuple(sorted(plans, key=lambda plan: plan.op)))


def derive_operator(spec: Spec, spec_path: str) -> OperatorPlan:
    keyword_only = keyword_only_names(spec)
    return OperatorPlan(
        op=spec.op,
        class_name=camel_case(spec.op),
        spec_path=spec_path,
        summary=spec.summary,
        doc=spec.doc,
        note=sharding_note(spec),
        parameters=tuple(parameter(spec, item, item.name in keyword_only) for item in spec.arguments),
        outputs=tuple(OutputPlan(item.name, output_doc(spec, item)) for item in spec.outputs),
        check_body=CheckBody(spec).text(),
        check_groups=any(packed_dims(spec, form) for form in spec.format.names),
        host_lengths=frozenset(item.name for item in spec.lengths),
        rule=layout_rule(spec),
        uses_context_parallel=spec.context_parallel is not None,
        reference=spec.reference,
        torch_delegate=spec.torch_delegate,
        cpp=derive_cpp(spec),
    )


def keyword_only_names(spec: Spec) -> set[str]:
    """Arguments with a default are keyword-only, unless the spec calls them positional."""
    return {item.name for item in spec.arguments if not item.required and not item.positional}


def parameter(spec: Spec, argument: Argument, keyword_only: bool) -> Parameter:
    if isinstance(argument, TensorArgument):
        optional = " | None" if argument.optional else ""
        cpp = "const std::optional<ms::Tensor>&" if argument.optional else "const ms::Tensor&"
        default = "None" if argument.optional else ""
        doc = sentences(argument.doc, tensor_doc(spec, argument))
        return Parameter(argument.name, "tensor", keyword_only, f"Tensor{optional}", default, cpp, doc)
    if isinstance(argument, LengthsArgument):
        optional = " | None" if argument.optional else ""
        vector = "std::vector<int64_t>"
        cpp = f"const std::optional<{vector}>&" if argument.optional else f"const {vector}&"
        default = "None" if argument.optional else ""
        doc = sentences(argument.doc, lengths_doc(spec, argument))
        return Parameter(argument.name, "lengths", keyword_only, f"Lengths{optional}", default, cpp, doc)
    default = "" if argument.default is None else literal(argument.default)
    doc = sentences(argument.doc, attribute_doc(spec, argument))
    cpp = CPP_ATTRIBUTE[argument.type]
    return Parameter(argument.name, "attribute", keyword_only, argument.type, default, cpp, doc)


def sentences(*parts: str) -> str:
    """Sentences joined; each ends with a full stop."""
    return " ".join(part if part.endswith((".", "!", "?")) else f"{part}." for part in parts if part)


def shapes_doc(per_format: dict[str, str]) -> str:
    """`Shape [B, S1] (BSND) or [T1] (TND)`, or one shape if it is the same in every format."""
    if len(set(per_format.values())) == 1:
        return "Shape " + next(iter(per_format.values()))
    return "Shape " + " or ".join(f"{shape} ({form})" for form, shape in per_format.items())


def shape_words(item: TensorArgument | Output) -> dict[str, str]:
    return {form: "[" + ", ".join(dim.text for dim in dims) + "]" for form, dims in item.dims.per_format.items()}


def tensor_doc(spec: Spec, tensor: TensorArgument) -> str:
    words = [f"that of {dtype}" if dtype in spec.by_name else dtype for dtype in tensor.dtypes]
    host = ", on the host also float32 or float64" if all(dtype in FLOATING for dtype in tensor.dtypes) else ""
    missing = "None if there is none" if tensor.optional else ""
    return sentences(f"{shapes_doc(shape_words(tensor))}; dtype {' or '.join(words)}{host}", missing)


def lengths_doc(spec: Spec, lengths: LengthsArgument) -> str:
    text = f"Integers that do not decrease and end at {lengths.of}, without a leading zero"
    forms = [form for form in spec.format.names if lengths.of in bare_dims(spec, form)]
    others = [form for form in spec.format.names if form not in forms]
    return sentences(text, f"None in format {' and '.join(others)}" if others else "")


def bare_dims(spec: Spec, form: str) -> set[str]:
    return {dim.name for tensor in spec.tensors for dim in tensor.dims.per_format[form] if dim.name}


def attribute_doc(spec: Spec, attribute: Attribute) -> str:
    choices = attribute.choices
    if spec.format.kind == "attribute" and attribute.name == spec.format.selector:
        choices = spec.format.names
    return "One of " + ", ".join(literal(choice) for choice in choices) if len(choices) > 1 else ""


def output_doc(spec: Spec, output: Output) -> str:
    dtype = f"that of {output.dtype}" if output.dtype in spec.by_name else output.dtype
    return sentences(output.doc, f"{shapes_doc(shape_words(output))}; dtype {dtype}")


def sharding_note(spec: Spec) -> str:
    """The layout rule in words."""
    shard = spec.sharding.shard
    others = [name for name in spec.dim_docs if name not in shard]
    parts = [f"{listed(shard)} may lie on mesh axes" if shard else "no dim may lie on a mesh axis"]
    parts += [f"{listed(others)} must be replicated"] if others and shard else []
    return sentences("Sharding: " + "; ".join(parts))


def listed(names: Sequence[str]) -> str:
    """`B, S1 and T1`."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)

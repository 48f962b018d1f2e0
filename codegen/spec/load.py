# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""From marked nodes, already valid by the schema, to the model."""

from __future__ import annotations

import keyword
import re
from collections import Counter

from ..diagnostics import Diagnostic, Findings, Source, Span, SpecError, suggestion
from .load_rules import load_backward, load_context_parallel, load_kernel, load_requirements, load_sharding
from .load_tensors import TensorLoader
from .model import Format, Reference, Spec
from .names import fault
from .node_access import block_of, entries_of, get, scalars_of, text_of, words
from .schema import check_schema
from .yaml_nodes import Mapping, Node, Scalar, read_nodes

MOST_FORMATS = 16
RANK_FORMAT = re.compile(r"rank\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*\)\Z")
REFERENCE = re.compile(r"([a-z_][a-z0-9_]*):([a-z_][a-z0-9_]*)\Z")


def load_spec(source: Source) -> Spec:
    """Parse one spec. Raises SpecError with everything that was found."""
    root = read_nodes(source)
    findings = Findings()
    check_schema(root, findings)
    findings.raise_if_any()
    return Loader(root, source).load()


class Loader:
    """Builds the model piece by piece, collecting what it finds."""

    def __init__(self, root: Mapping, source: Source) -> None:
        self.root = root
        self.source = source
        self.findings = Findings()

    def load(self) -> Spec:
        root = self.root
        self.names()
        form = self.format()
        tensors = TensorLoader(form.names, get(root, "args"), self.findings)
        arguments = tensors.arguments()
        outputs = tensors.outputs(get(root, "outputs"))
        reference, backward_reference = self.references()
        spec = Spec(
            op=text_of(get(root, "op")),
            aliases=tuple(words(get(root, "aliases"))),
            summary=text_of(get(root, "summary")),
            doc=block_of(get(root, "doc")),
            format=form,
            dim_docs={key.text: text_of(value) for key, value in entries_of(get(root, "dims"))},
            arguments=arguments,
            outputs=outputs,
            requirements=self.findings.attempt(lambda: load_requirements(get(root, "require"), self.findings)) or (),
            sharding=load_sharding(get(root, "sharding")),
            context_parallel=self.findings.attempt(
                lambda: load_context_parallel(get(root, "context_parallel"), self.findings)
            ),
            backward=self.findings.attempt(lambda: load_backward(get(root, "backward"), tensors, self.findings)),
            kernel=self.findings.attempt(lambda: load_kernel(get(root, "kernel"), tensors, self.findings)),
            reference=reference,
            backward_reference=backward_reference,
            sample=self.function(get(root, "sample")),
            torch_delegate=self.torch_delegate(),
            source=self.source,
            op_at=self.place("op"),
            dims_at={key.text: key.span for key, _ in entries_of(get(root, "dims"))},
            aliases_at=words(get(root, "aliases")),
        )
        self.findings.drop_consequences("HP101", ("HP103", "HP202"))  # a word of Python does not parse anywhere
        self.findings.raise_if_any()
        self.needed_with_a_kernel(spec)
        self.findings.raise_if_any()
        return spec

    def names(self) -> None:
        """Names that become identifiers in Python and C++."""
        backward = get(self.root, "backward")
        holders = [get(self.root, key) for key in ("dims", "args", "outputs")]
        holders += [get(get(self.root, "kernel"), "temporaries"), get(backward, "temporaries")]
        for holder in holders:
            for key, _ in entries_of(holder):
                reason = fault(key.text)
                if reason:
                    self.findings.add("HP101", key.span, f"the name '{key.text}' {reason}", "choose another")

    def place(self, key: str) -> Span:
        node = get(self.root, key)
        return node.span if node else self.root.span

    def format(self) -> Format:
        """The formats are what most tensors give dims for, so that one misspelt format is one message."""
        scalar = scalars_of(get(self.root, "format"))[0]
        args = {key.text: node for key, node in entries_of(get(self.root, "args"))}
        holders = [*args.values(), *(node for _, node in entries_of(get(self.root, "outputs")))]
        given = [[key.text for key, _ in entries_of(get(node, "dims"))] for node in holders]
        given = [names for names in given if names]
        seen = Counter(name for names in given for name in names)
        names = tuple(name for name, count in seen.items() if 2 * count >= len(given))
        if len(names) > MOST_FORMATS:
            raise SpecError(Diagnostic("HP005", scalar.span, f"more than {MOST_FORMATS} formats"))
        rank = RANK_FORMAT.match(scalar.text)
        if rank:
            return Format("rank", rank.group(1), names, scalar.span)
        if scalar.text in args:
            return Format("attribute", scalar.text, names, scalar.span)
        if names in ((), (scalar.text,)):
            return Format("fixed", "", (scalar.text,), scalar.span)
        message = f"'{scalar.text}' does not tell the format: name an attribute, rank(x), or the only format"
        self.findings.add("HP105", scalar.span, message, suggestion(scalar.text, [*args, *names]))
        return Format("fixed", "", names, scalar.span)

    def function(self, node: Node | None) -> Reference | None:
        """`module:function`."""
        if not isinstance(node, Scalar):
            return None
        match = REFERENCE.match(node.text)
        if not match:
            self.findings.add("HP404", node.span, f"'{node.text}' is not module:function", "such as: my_op:forward")
            return None
        return Reference(*match.groups())

    def references(self) -> tuple[Reference | None, Reference | None]:
        node = get(self.root, "reference")
        if isinstance(node, Mapping):
            return self.function(node.get("forward")), self.function(node.get("backward"))
        return self.function(node), None

    def torch_delegate(self) -> str:
        scalar = get(get(get(self.root, "platforms"), "torch"), "delegate")
        if scalar is not None and (not text_of(scalar).isidentifier() or keyword.iskeyword(text_of(scalar))):
            self.findings.add("HP101", scalar.span, f"'{text_of(scalar)}' is not the name of a module")
        return text_of(scalar)

    def needed_with_a_kernel(self, spec: Spec) -> None:
        """A spec with a kernel says everything; one without describes a layout rule only."""
        if spec.kernel is None:
            for key in ("backward", "platforms"):
                if get(self.root, key) is not None:
                    message = f"'{key}' has no meaning without 'kernel'"
                    self.findings.add("HP021", self.root.key(key).span, message, "delete it, or describe the kernel")
            return
        for key in ("backward", "reference"):
            if get(self.root, key) is None:
                hint = "none, precomputed or call" if key == "backward" else "the NumPy oracle, module:function"
                self.findings.add("HP022", self.root.key("kernel").span, f"'{key}' is missing beside 'kernel'", hint)
        if spec.aliases:
            message = "'aliases' are for operators that the platform already has, so for specs without 'kernel'"
            self.findings.add("HP021", self.root.key("aliases").span, message)

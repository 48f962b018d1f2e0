# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs over the whole language, drawn at random. Most are accepted; what is refused must be refused with a message."""

from __future__ import annotations

import random
import re
from typing import Any

from . import kernel_calls
from .expressions import Names, condition, extent, one_dim
from .styles import dump
from .words import FLOATS, INTEGERS, chance, name, pick, text

FLOATING = ("float16", "bfloat16", "float32", "float64")
INTEGRAL = ("int8", "int16", "int32", "int64", "uint8", "bool")


def valid_spec(draw: random.Random) -> str:
    """The text of a spec."""
    return dump(draw, Builder(draw).spec())


class Builder:
    """Draws the parts of a spec in an order in which each can refer to those before."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.taken: set[str] = set()
        self.layout_only = chance(draw, 8)
        self.policy = pick(draw, ("none", "precomputed", "call", "call"))
        self.any_rank = chance(draw, 6)
        self.kind = pick(draw, ("fixed", "attribute") if self.any_rank else ("fixed", "attribute", "rank"))
        self.draw_dims()
        self.tensors: dict[str, dict[str, Any]] = {}
        self.lengths: dict[str, dict[str, Any]] = {}
        self.attributes: dict[str, dict[str, Any]] = {}
        self.outputs: dict[str, dict[str, Any]] = {}
        self.bare: dict[str, dict[str, set[str]]] = {}  # tensor or output -> format -> the dims it has bare

    def draw_dims(self) -> None:
        """The formats, their own dims, those that all share; which of them may be cut."""
        draw = self.draw
        forms: set[str] = set()
        count = 1 if self.kind == "fixed" else draw.randint(1, 3)
        self.forms = [name(draw, forms) for _ in range(count)]
        self.leading = {
            form: []
            if self.any_rank
            else [name(draw, self.taken) for _ in range(index + draw.randint(0, 1) * (self.kind != "rank"))]
            for index, form in enumerate(self.forms)
        }
        self.shared = [name(draw, self.taken) for _ in range(draw.randint(0 if self.any_rank else 1, 3))]
        self.contracted = [self.shared.pop()] if len(self.shared) > 1 and chance(draw, 8) else []
        own = [dim for dims in self.leading.values() for dim in dims]
        self.cut = [dim for dim in (*own, *self.shared) if draw.randrange(2)]
        self.with_context = not self.any_rank and all(self.leading.values()) and chance(draw, 2)
        self.keys = {form: name(draw, self.taken) for form in self.forms} if self.with_context else {}
        if self.with_context:
            self.cut = list(dict.fromkeys([*self.cut, *(dims[0] for dims in self.leading.values())]))
        self.docs = {dim: text(draw) for dim in (*own, *self.shared, *self.contracted, *self.keys.values())}

    def free(self, form: str) -> list[str]:
        """The dims that may stand in expressions."""
        dims = (*self.leading[form], *self.shared)
        return [dim for dim in dims if dim not in self.cut]

    def everywhere(self) -> list[str]:
        """The dims that every format knows."""
        only = self.leading[self.forms[0]] if len(self.forms) == 1 else []
        return [*only, *self.shared, *self.contracted]

    def per_format(self, dims: dict[str, str]) -> Any:
        """Dims as a mapping, or as one text if that says the same."""
        if len(set(dims.values())) == 1 and self.draw.randrange(2) and len(self.tensors) > 0:
            return next(iter(dims.values()))
        return dims

    def add_tensor(self, dims: dict[str, list[str]], **entries: Any) -> str:
        found = name(self.draw, self.taken)
        self.bare[found] = {form: set(parts) for form, parts in dims.items()}
        texts = {form: " ".join(parts) for form, parts in dims.items()}
        self.tensors[found] = self.described({"dims": self.per_format(texts)} | entries)
        return found

    def described(self, entries: dict[str, Any]) -> dict[str, Any]:
        return entries if chance(self.draw, 4) else {"doc": text(self.draw)} | entries

    def dtype(self) -> Any:
        draw = self.draw
        required = [item for item, entry in self.tensors.items() if not entry.get("optional")]
        choices: list[Any] = [pick(draw, FLOATING), pick(draw, INTEGRAL), draw.sample(FLOATING, draw.randint(1, 3))]
        if required:
            choices += [pick(draw, required), [pick(draw, required), pick(draw, FLOATING)]]
        return pick(draw, choices)

    def draw_tensors(self) -> None:
        draw = self.draw
        first = {form: [*self.leading[form], *self.shared, *self.contracted] for form in self.forms}
        if self.any_rank:
            first = {form: self.first_dims(form) for form in self.forms}
        self.first = self.add_tensor(first, dtype=draw.sample(FLOATING, draw.randint(1, 3)))
        if self.with_context:
            dims = {form: [self.keys[form], *self.free(form)] for form in self.forms}
            self.add_tensor(dims, dtype=self.first)
        for _ in range(draw.randint(0, 4)):
            dims = {form: self.some_dims(form) for form in self.forms}
            entry: dict[str, Any] = {"dtype": self.dtype()}
            if draw.randrange(3) == 0:
                entry["optional"] = True
                if chance(draw, 4):
                    entry["positional"] = True
            self.add_tensor(dims, **entry)

    def first_dims(self, form: str) -> list[str]:
        """Any number of dims may be known from one tensor in one format, and from another in another."""
        own = [*self.shared, *self.contracted]
        return own if chance(self.draw, 6) else ["...", *own]

    def some_dims(self, form: str) -> list[str]:
        """Some of a format's dims, and expressions of those that stay whole."""
        draw = self.draw
        dims = [dim for dim in (*self.leading[form], *self.shared) if draw.randrange(3)]
        if self.any_rank and draw.randrange(2):
            dims.insert(draw.randint(0, len(dims)), "...")
        for _ in range(draw.choice((0, 0, 1, 2))):
            dims.insert(draw.randint(0, len(dims)), one_dim(draw, self.free(form)))
        return dims

    def draw_lengths(self) -> None:
        draw = self.draw
        own = [dim for dims in self.leading.values() for dim in dims]
        for _ in range(draw.choice((0, 0, 0, 1, 2)) if own else 0):
            entry: dict[str, Any] = {"type": "lengths", "of": pick(draw, own), "optional": draw.randrange(3) > 0}
            if draw.randrange(2):
                entry |= {"where": "device"} | ({"dtype": pick(draw, ("int32", "int64"))} if draw.randrange(2) else {})
            elif draw.randrange(2):
                entry["missing"] = pick(draw, ("empty", "absent"))
            if draw.randrange(3) == 0:
                entry["leading_zero"] = True
            self.lengths[name(draw, self.taken)] = self.described(entry)
        if self.lengths and chance(draw, 3):
            entry = pick(draw, sorted(self.lengths.items()))[1]
            counted = name(draw, self.taken)
            entry["count"] = counted
            self.docs[counted] = text(draw)
            holders = {form: [counted] if entry["of"] in self.leading[form] else ["1"] for form in self.forms}
            self.add_tensor(holders, dtype=self.first, optional=True)

    def draw_attributes(self) -> None:
        draw = self.draw
        if self.kind == "attribute":
            self.selector = name(draw, self.taken)
            entry = {"type": "str"} | ({"default": pick(draw, self.forms)} if draw.randrange(3) else {})
            self.attributes[self.selector] = self.described(entry)
        for _ in range(draw.choice((0, 1, 2, 3, 6))):
            self.attributes[name(draw, self.taken)] = self.described(self.attribute())
        if self.any_rank and draw.randrange(2):
            axis = name(draw, self.taken)
            self.docs[axis] = text(draw)
            chosen = {"type": "int", "axis": axis} | ({"default": draw.randint(-2, 1)} if draw.randrange(2) else {})
            self.attributes[name(draw, self.taken)] = self.described(chosen)

    def attribute(self) -> dict[str, Any]:
        draw = self.draw
        kind = pick(draw, ("int", "float", "bool", "str", "dtype", "ints"))
        values = [self.value(kind) for _ in range(draw.randint(1, 4))]
        entry: dict[str, Any] = {"type": kind}
        if kind == "ints":
            some = [pick(draw, INTEGERS) for _ in range(draw.randint(0, 4))]
            entry |= pick(draw, ({}, {"optional": True}, {"default": some}))
        else:
            entry |= {"choices": list(dict.fromkeys(values))} if draw.randrange(3) == 0 else {}
            entry |= {"default": values[0]} if draw.randrange(3) else {}
        return entry | ({"positional": True} if chance(draw, 6) else {})

    def value(self, kind: str) -> Any:
        draw = self.draw
        if kind == "int":
            return "INT64_MAX" if chance(draw, 6) else pick(draw, INTEGERS)
        if kind == "float":
            return "inf" if chance(draw, 6) else pick(draw, FLOATS)
        if kind == "bool":
            return bool(draw.randrange(2))
        if kind == "dtype":
            return pick(draw, (*FLOATING, *INTEGRAL))
        return text(draw)

    def named(self, kind: str) -> list[str]:
        """The attributes of a type."""
        return [item for item, entry in self.attributes.items() if entry["type"] == kind]

    def names(self) -> Names:
        """What conditions may be about."""
        every = [*self.tensors.items(), *self.lengths.items(), *self.attributes.items()]
        words = {item: [str(word) for word in self.attributes[item].get("choices", ())] for item in self.named("str")}
        if self.kind == "attribute":
            words[self.selector] = self.forms
        return Names(
            integers=[*self.docs, *self.named("int")]
            if chance(self.draw, 3)
            else [*self.everywhere(), *self.named("int")],
            floats=self.named("float"),
            booleans=self.named("bool"),
            texts=words,
            optional=[item for item, entry in every if entry.get("optional")],
            tensors=list(self.tensors),
        )

    def draw_outputs(self) -> None:
        draw = self.draw
        for number in range(draw.randint(1, 3)):
            found = name(draw, self.taken)
            whole = [
                item
                for item, dims in self.bare.items()
                if not any(set(self.contracted) & parts for parts in dims.values())
            ]
            whole = [item for item in whole if not self.tensors.get(item, {}).get("optional")]
            if whole and draw.randrange(2):
                entry: dict[str, Any] = {"like": pick(draw, whole)}
                self.bare[found] = self.bare[entry["like"]]
                entry |= {"dtype": pick(draw, FLOATING)} if chance(draw, 4) else {}
                axes = [item["axis"] for item in self.attributes.values() if "axis" in item]
                if axes and draw.randrange(2):
                    entry["resize"] = {
                        axes[0]: pick(draw, (extent(draw, [*axes, *self.named("int")]), f"{axes[0]}//2"))
                    }
            else:
                dims = {form: self.output_dims(form) for form in self.forms}
                self.bare[found] = {form: set(parts) for form, parts in dims.items()}
                entry = {"dtype": pick(draw, (self.first, *self.named("dtype"), *FLOATING, *INTEGRAL))}
                entry["dims"] = self.per_format({form: " ".join(parts) for form, parts in dims.items()})
            self.outputs[found] = self.described(entry | self.combined(found, pick(draw, ("sum", "max", "same"))))
            if number and self.named("bool") and chance(draw, 4):
                self.outputs[found]["when"] = self.named("bool")[0]

    def output_dims(self, form: str) -> list[str]:
        draw = self.draw
        if chance(draw, 4):
            return ["1"] if draw.randrange(2) else []
        integers = [*self.free(form), *self.named("int")]
        dims = [dim for dim in (*self.leading[form], *self.shared) if draw.randrange(5)]
        if self.any_rank:
            dims.insert(0, "...")
        return [*dims, one_dim(draw, integers)] if chance(draw, 3) else dims

    def combined(self, output: str, how: str) -> dict[str, str]:
        """`combine` if the output lacks a dim that may be cut."""
        for form, parts in self.bare[output].items():
            cut = {dim for dim in self.cut if dim in (*self.leading[form], *self.shared)}
            if (cut | ({"..."} if self.any_rank and "..." in self.cut else set())) - parts:
                return {"combine": "sum" if self.contracted else how}
        return {}

    def sharding(self) -> dict[str, Any]:
        found: dict[str, Any] = {"shard": self.cut}
        if self.contracted:
            found["reduce"] = dict.fromkeys(self.contracted, "sum")
        if len(self.cut) > 1 and chance(self.draw, 4):
            found["together"] = [self.draw.sample(self.cut, 2)]
        if chance(self.draw, 6):
            found["linear"] = [[item] for item in self.draw.sample(list(self.tensors), 1)]
        return found

    def context_parallel(self) -> dict[str, Any]:
        draw = self.draw
        attributes = Names(integers=self.named("int"), booleans=self.named("bool"))
        query = [self.leading[form][0] for form in self.forms]
        found: dict[str, Any] = {
            "query": query,
            "key": list(self.keys.values()),
            "mask": pick(draw, ("causal", "full")),
        }
        if self.named("int") and draw.randrange(2):
            found["mask"] = f"causal if {condition(draw, attributes, 1)} else full"
        packed = {entry["of"]: item for item, entry in self.lengths.items() if entry["of"] in query}
        if packed:
            found["lengths"] = packed
        if self.named("int") and draw.randrange(2):
            found["ratio"] = {"by": self.named("int")[0], "residual": pick(draw, list(self.tensors))}
        if draw.randrange(2):
            found["require"] = [self.requirement()]
        return found

    def requirement(self) -> Any:
        found = condition(self.draw, self.names())
        if not re.search(r"[A-Za-z]", found):  # a condition of numbers alone is refused
            found = f"rank({self.first}) > 0 or {found}"
        return {"if": condition(self.draw, self.names(), 1), "then": found} if chance(self.draw, 4) else found

    def arguments(self) -> dict[str, Any]:
        """All of them, the ones without a default first, as Python wants it."""
        mixed = [*self.tensors.items()]
        for item in (*self.lengths.items(), *self.attributes.items()):
            mixed.insert(self.draw.randint(0, len(mixed)), item)
        return dict(sorted(mixed, key=rank_of))

    def spec(self) -> dict[str, Any]:
        draw = self.draw
        if self.any_rank and draw.randrange(2):
            self.cut.append("...")
        self.draw_tensors()
        self.draw_lengths()
        self.draw_attributes()
        self.draw_outputs()
        backward = kernel_calls.backward(self) if not self.layout_only else {}
        op = pick(draw, ("npu", "x", "a_1", "npu_" + "long" * draw.randint(1, 9))) + f"_{draw.randrange(10**9)}"
        found: dict[str, Any] = {"op": op, "summary": text(draw)[:400]}
        if draw.randrange(2):
            found["doc"] = text(draw)
        selector = {"fixed": self.forms[0], "attribute": getattr(self, "selector", ""), "rank": f"rank({self.first})"}
        found |= {"format": selector[self.kind], "dims": self.docs, "args": self.arguments(), "outputs": self.outputs}
        if draw.randrange(2):
            found["require"] = [self.requirement() for _ in range(draw.randint(1, 4))]
        if self.cut or draw.randrange(2):
            found["sharding"] = self.sharding()
        if self.with_context:
            found["context_parallel"] = self.context_parallel()
        if self.layout_only:
            return found | ({"aliases": [f"Alias{draw.randrange(10**9)}"]} if draw.randrange(2) else {})
        return found | backward | kernel_calls.kernel(self)


def rank_of(item: tuple[str, dict[str, Any]]) -> int:
    """0 for a required argument, 1 for a positional one with a default, 2 for the others."""
    entry = item[1]
    if "default" not in entry and not entry.get("optional"):
        return 0
    return 1 if entry.get("positional") else 2

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Nothing of a spec is dropped on the way: every field of the model is read, every field of the plan is emitted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import resources
from typing import Any
from unittest.mock import patch

import jinja2
import pytest

from hpgen.artifacts import PLATFORMS
from hpgen.library import load_library
from hpgen.plan import LibraryPlan, derive_library, operator
from hpgen.render import environment, render, render_library
from hpgen.spec import dims, expression, kernel_call, model
from hpgen.spec.check import check_spec
from hpgen.text.python_layout import Chain, Group, prefixed

from ..golden.update import case_folders
from .spec_texts import SPECS

Fields = set[tuple[str, str]]

FOLDERS = [SPECS, *(case / "specs" for case in case_folders())]
PLAN_CLASSES = [
    found for found in vars(operator).values() if isinstance(found, type) and found.__module__ == operator.__name__
]
MODEL_CLASSES = [
    found
    for module in (model, dims, expression, kernel_call)
    for found in vars(module).values()
    if isinstance(found, type) and found.__module__ == module.__name__ and dataclasses.is_dataclass(found)
]


def fields(classes: list[type]) -> Fields:
    """Every field but those for messages: places in the source, which no comparison looks at."""
    return {(found.__name__, field.name) for found in classes for field in dataclasses.fields(found) if field.compare}


@contextmanager
def recorded(classes: list[type]) -> Iterator[Fields]:
    """The fields that are read of any object of the classes, comparing and hashing whole objects aside."""
    read: Fields = set()

    def reader(found: type) -> Callable[[Any, str], Any]:
        def get(self: Any, name: str) -> Any:
            read.add((found.__name__, name))
            return object.__getattribute__(self, name)

        return get

    with ExitStack() as stack:
        for found in classes:
            stack.enter_context(patch.object(found, "__getattribute__", reader(found), create=True))
            for method in ("__eq__", "__hash__"):
                stack.enter_context(patch.object(found, method, silenced(read, getattr(found, method))))
        yield read


def silenced(read: Fields, method: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        before = set(read)
        result = method(*arguments)
        read.intersection_update(before)
        return result

    return call


@pytest.fixture(scope="module")
def plans() -> list[LibraryPlan]:
    libraries = [load_library([folder]) for folder in FOLDERS]
    return [derive_library(library.specs, library.shown) for library in libraries]


def test_every_field_of_the_model_is_read() -> None:
    libraries = [load_library([folder]) for folder in FOLDERS]
    with recorded(MODEL_CLASSES) as read:
        for library in libraries:
            render_library(derive_library(library.specs, library.shown))
            for spec in library.specs:
                check_spec(spec)
    assert sorted(fields(MODEL_CLASSES) - read) == []


def test_every_field_of_the_plan_is_read(plans: list[LibraryPlan]) -> None:
    with recorded(PLAN_CLASSES) as read:
        for plan in plans:
            render_library(plan)
    assert sorted(fields(PLAN_CLASSES) - read) == []


def test_every_field_of_the_plan_changes_what_is_emitted(plans: list[LibraryPlan]) -> None:
    """Stronger than reading: with another value, or one element less, some file of some case is another."""
    missing = fields(PLAN_CLASSES) - {("LibraryPlan", "operators")}
    for plan in plans:
        before = render_library(plan)
        for names, other in changes(plan):
            if names in missing and emitted(other) != before:
                missing.remove(names)
    assert sorted(missing) == []


def emitted(plan: LibraryPlan) -> object:
    """The files, or the complaint that they do not belong together."""
    try:
        return render_library(plan)
    except (KeyError, jinja2.UndefinedError) as error:
        return error


def changes(item: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """Copies of a plan that differ in one field of one object in it, with the class and the name of the field."""
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        for other in altered(value):
            yield (type(item).__name__, field.name), dataclasses.replace(item, **{field.name: other})
        for names, inner in nested(value):
            yield names, dataclasses.replace(item, **{field.name: inner})


def nested(value: Any) -> Iterator[tuple[tuple[str, str], Any]]:
    """Changes below a field: of the object that it holds, or of one of several."""
    if type(value) in PLAN_CLASSES:
        yield from changes(value)
    if isinstance(value, tuple):
        for index, element in enumerate(value):
            for names, inner in nested(element):
                yield names, (*value[:index], inner, *value[index + 1 :])


def altered(value: Any) -> Iterator[Any]:
    """Other values in place of one."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield f"{value}_x"
        yield ""
    elif isinstance(value, Group | Chain):
        yield prefixed("x", value)
    elif type(value) in PLAN_CLASSES:
        yield None
    elif isinstance(value, model.Reference):
        yield model.Reference("other", "function")
    elif isinstance(value, tuple) and value:
        yield value[:-1]
        yield from ((*value[:-1], other) for other in altered(value[-1]))


def test_a_name_that_the_plan_does_not_have_is_an_error(plans: list[LibraryPlan]) -> None:
    assert environment().undefined is jinja2.StrictUndefined
    with pytest.raises(jinja2.UndefinedError, match="operators"):
        render("init.py.j2", header="")
    with pytest.raises(jinja2.UndefinedError):
        render("api.py.j2", header="", op=PLATFORMS[0])


@pytest.mark.parametrize("word", ["default(", "is defined", "is not defined", "ignore missing", "safe"])
def test_no_template_hides_what_is_missing(word: str) -> None:
    for template in resources.files("hpgen.templates").iterdir():
        if template.name.endswith(".j2"):
            assert word not in template.read_text(encoding="utf-8"), template.name


def test_the_recorder_sees_what_is_not_read() -> None:
    """The tests above can fail: a field that nobody reads, or that only a comparison reads, is found."""
    first, second = operator.OutputPlan("a", "b"), operator.OutputPlan("a", "c")
    with recorded([operator.OutputPlan]) as read:
        assert first.name == "a"
        assert first != second
    assert fields([operator.OutputPlan]) - read == {("OutputPlan", "doc")}

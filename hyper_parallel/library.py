# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operators of all libraries by name, and what a library holds for one of them."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hyper_parallel.op_libraries import LibraryError, OperatorLibrary, clash, find_libraries


@dataclass(frozen=True)
class OperatorEntry:
    """What `build.json` says of one operator.

    Attributes:
        op: The operator's name.
        dfunction: The name of its autograd function's class.
        reference: `module:function` of its NumPy reference.
        backward_reference: The same for its backward kernel; empty if it has none.
        outputs: How many outputs it has.
        gradients: How many its backward kernel has; None if the library was generated before that was written.
        sources: C++ sources in the library, with their content hashes.
        cpu_headers: Headers of its host kernels.
        spec: Its spec, seen from the folder around the specs.
        library: The library that it belongs to.
    """

    op: str
    dfunction: str
    reference: str
    backward_reference: str
    outputs: int
    gradients: int | None
    sources: dict[str, str]
    cpu_headers: tuple[str, ...]
    spec: str
    library: OperatorLibrary

    @property
    def names(self) -> Iterator[str]:
        """The names that no other operator may have: its own, its backward kernel's, its class's."""
        yield self.op
        if self.backward_reference:
            yield f"{self.op}_backward"
        yield self.dfunction

    @property
    def registry_file(self) -> Path:
        """The file that stands for the operator in messages."""
        return self.library.registry_file(self.op)

    def load_dfunction(self) -> type:
        """The operator's autograd function."""
        return self._load(f"{self.op}.dfunction", self.dfunction)  # type: ignore[no-any-return]

    def load_function(self) -> Callable[..., Any]:
        """The operator's public function."""
        return self._load(f"{self.op}.api", self.op)  # type: ignore[no-any-return]

    def load_entry_point(self, platform: str, class_name: str) -> Callable[..., Any]:
        """The operator's method of the generated class of a platform."""
        return getattr(self._load(f"platform_{platform}", class_name), self.op)  # type: ignore[no-any-return]

    def define_torch_operator(self) -> None:
        """Define the torch.library operator, once. ImportError if the library was generated without one."""
        self._load(f"{self.op}.torch_library", "empty_outputs")

    def _load(self, module: str, name: str) -> Any:
        found = getattr(self.library.load(module), name, None)
        if found is None:
            raise ImportError(f"{self.library.title} has no {name} in its module {module}; run 'hpgen ops' again.")
        return found


@dataclass(frozen=True)
class Catalogue:
    """Every operator of every library.

    Attributes:
        libraries: The libraries, the built-in one first.
        operators: Operator name -> entry, of the first library that has it.
        clashes: Name -> what to say when a name is asked for that two libraries give.
        faults: What keeps installed libraries from being used.
    """

    libraries: tuple[OperatorLibrary, ...]
    operators: dict[str, OperatorEntry]
    clashes: dict[str, str]
    faults: tuple[str, ...]

    def check_unique(self, *names: str) -> None:
        """ValueError if two libraries give one of the names."""
        for name in names:
            if name in self.clashes:
                raise ValueError(self.clashes[name])


@functools.cache
def catalogue() -> Catalogue:
    """Every operator of the process, read on the first call.

    Raises:
        ValueError: If a library that an environment variable names cannot be read, or clashes with another one.
        FileNotFoundError: If the variable names a folder that is missing.
    """
    libraries = find_libraries()
    usable, faults = [], list(libraries.faults)
    operators: dict[str, OperatorEntry] = {}
    owners: dict[str, OperatorEntry] = {}
    clashes: dict[str, str] = {}
    for library in libraries.found:
        try:
            entries = list(_entries(library))
        except LibraryError as error:
            if not library.is_installed:
                raise
            faults.append(str(error))
            continue
        usable.append(library)
        for entry in entries:
            operators.setdefault(entry.op, entry)
            for name in entry.names:
                other = owners.setdefault(name, entry)
                if other is entry:
                    continue
                what = f"operator {name}" if name == entry.op == other.op else f"name {name}"
                message = clash(what, (other.registry_file, entry.registry_file), (other.library, library))
                if not library.is_installed:  # asked for in this process, so that it should hear of it at once
                    raise ValueError(message)
                clashes.setdefault(name, message)
    return Catalogue(tuple(usable), operators, clashes, tuple(faults))


def _entries(library: OperatorLibrary) -> Iterator[OperatorEntry]:
    for op, body in library.index().items():
        yield OperatorEntry(
            op=op,
            dfunction=body["dfunction"],
            reference=body["reference"],
            backward_reference=body.get("backward_reference", ""),
            outputs=body["outputs"],
            gradients=body.get("gradients"),
            sources=body["sources"],
            cpu_headers=tuple(body["cpu_headers"]),
            spec=body["spec"],
            library=library,
        )


def operators() -> dict[str, OperatorEntry]:
    """Every operator of the libraries by name."""
    return catalogue().operators


def operator(op: str) -> OperatorEntry:
    """The entry of one operator.

    Raises:
        LookupError: With the known names, if no library has one of that name.
        ValueError: If two libraries have it.
    """
    found = catalogue()
    found.check_unique(op)
    entry = found.operators.get(op)
    if entry is None:
        known = ", ".join(sorted(found.operators))
        raise LookupError(" ".join([f"The operator library has no {op!r}; it has {known}.", *found.faults]))
    if entry.backward_reference:
        found.check_unique(f"{op}_backward")
    return entry


def entry_of_kernel(kernel: str) -> OperatorEntry:
    """The operator that a kernel belongs to: an operator's name, or that name with `_backward` behind it.

    Raises:
        LookupError: If no library has such an operator.
        ValueError: If two libraries have it.
    """
    return operator(kernel if kernel in operators() else kernel.removesuffix("_backward"))


def reference(kernel: str) -> Callable[..., tuple[Any, ...]]:
    """The NumPy function for a kernel: an operator's name, or that name with `_backward` behind it.

    Raises:
        LookupError: If no library has such a kernel, or its library lacks the function.
        ValueError: If two libraries have it.
    """
    entry = entry_of_kernel(kernel)
    backward = kernel != entry.op
    path = entry.backward_reference if backward else entry.reference
    if not path:
        raise LookupError(f"The operator {entry.op!r} has no backward kernel.")
    module, function = path.split(":")
    packages = entry.library.references(entry.spec.split("/")[0])
    for package in packages:
        try:
            found = importlib.import_module(f"{package}.{module}")
        except ModuleNotFoundError as error:
            if error.name is None or not f"{package}.{module}.".startswith(f"{error.name}."):
                raise  # the module is there, but one that it imports is not
            continue
        if not hasattr(found, function):
            raise LookupError(f"The reference {path!r} of {entry.op!r} has no function {function!r} in its module.")
        count, what = (entry.gradients, "gradient") if backward else (entry.outputs, "output")
        return _checked(getattr(found, function), kernel, path, count, what)
    listed = " and no ".join(f"{package}.{module}" for package in packages) or "folder 'reference' beside the specs"
    raise LookupError(f"The reference {path!r} of {entry.op!r} has no module: there is no {listed}.")


def _checked(
    found: Callable[..., Any], kernel: str, path: str, count: int | None, what: str
) -> Callable[..., tuple[Any, ...]]:
    """A reference called as the spec says, that returns so many arrays; or an error that says how it is written."""

    def reference_kernel(*args: Any) -> tuple[Any, ...]:
        try:
            made = found(*args)
        except TypeError:
            _check_signature(found, args, f"The reference {path!r} of {kernel!r}")
            raise
        result = made if isinstance(made, tuple) else (made,)
        if count is not None and len(result) != count:
            wanted = f"a tuple of {count} {what}s" if count > 1 else f"1 {what}"
            given = f"a tuple of {len(made)}" if isinstance(made, tuple) else f"one {type(made).__name__}"
            raise ValueError(f"The reference {path!r} of {kernel!r} should return {wanted}, but returned {given}.")
        return result

    return reference_kernel


def _check_signature(function: Callable[..., Any], args: tuple[Any, ...], name: str) -> None:
    """Raise a clear error if a function cannot be called with so many arguments."""
    try:
        inspect.signature(function).bind(*args)
    except TypeError as error:
        wanted = f"should take the kernel's {len(args)} arguments by position"
        raise TypeError(f"{name} {wanted}, but {error}.") from None


def dfunction(name: str) -> type:
    """The autograd function class of that name. AttributeError if no library has it, ValueError if two have it."""
    found = catalogue()
    found.check_unique(name)
    for entry in found.operators.values():
        if entry.dfunction == name:
            return entry.load_dfunction()
    raise AttributeError(f"The operator library has no autograd function {name!r}.")

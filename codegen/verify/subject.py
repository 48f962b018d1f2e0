# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What is verified: the generated classes of a spec, or a rule written by hand, with the reference it is judged by."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..plan import derive_operator
from ..render import render_operator
from ..spec.expression import Name, calls_in
from ..spec.model import BackwardCall, Precomputed, Reference, Spec

if TYPE_CHECKING:
    from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp

_NUMBERS = itertools.count()


class SubjectError(Exception):
    """What is to be verified cannot be loaded; the message says why and what to do."""


class KernelError(Exception):
    """The reference has refused what a rank gave it."""


@dataclass(frozen=True)
class Subject:
    """One operator to verify.

    Attributes:
        spec: Its spec.
        rule: The distributed operator's class, generated or written by hand.
        function: The generated autograd function; None for a spec without kernel, where the reference runs as it is.
        reference: The operator on whole tensors: arguments in the order of the call, a tuple of outputs or one.
        backward: The backward kernel's reference, if it has one.
        sample: Makes inputs that are not free, if the spec names one.
        files: What was rendered: the source of the classes, for reports and for the cache.
    """

    spec: Spec
    rule: type[DistributedOp]
    function: Any
    reference: Callable[..., Any]
    backward: Callable[..., Any] | None
    sample: Callable[..., Mapping[str, Any]] | None
    files: Mapping[PurePosixPath, str]

    @cached_property
    def differentiable(self) -> tuple[str, ...]:
        """The tensors that get a gradient."""
        backward = self.spec.backward
        if isinstance(backward, Precomputed):
            return tuple(item.name for item in self.spec.tensors if item.name in backward.gradients)
        if isinstance(backward, BackwardCall):
            named = grads_named(backward)
            return tuple(item.name for item in self.spec.tensors if item.name in named)
        return ()

    @cached_property
    def with_cotangents(self) -> tuple[str, ...]:
        """The outputs through which gradients flow."""
        backward = self.spec.backward
        if isinstance(backward, Precomputed):
            if backward.cotangent:
                return (backward.cotangent,)
            # Ignored, so that the gradients are those of no loss: whichever output there is beside them is tried.
            return tuple(name for name in self.spec.output_by_name if name not in backward.gradients.values())
        if isinstance(backward, BackwardCall):
            named = grads_named(backward)
            return tuple(item.name for item in self.spec.outputs if item.name in named and not item.hidden)
        return ()

    def kernel(self, name: str) -> Callable[..., tuple[Any, ...]]:
        """What the platform is to load as the kernel of that name."""
        found = self.backward if name == f"{self.spec.op}_backward" else self.reference
        if found is None:
            raise SubjectError(f"{self.spec.op} has a backward kernel, but the spec names no reference of it.")
        return as_kernel(found)


def grads_named(backward: BackwardCall) -> set[str]:
    """Everything that a backward call names in `grad(...)`."""
    return {
        argument.id
        for launch in backward.launches
        for node in launch.call.arguments
        for call in calls_in(node)
        if call.function == "grad"
        for argument in call.arguments
        if isinstance(argument, Name)
    }


def as_kernel(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """A reference that returns a tuple, and whose own errors are told from those of the rule."""

    def kernel(*args: Any) -> tuple[Any, ...]:
        try:
            with np.errstate(all="ignore"):  # what is no number is looked at afterwards
                made = function(*args)
        except Exception as error:
            raise KernelError(f"{type(error).__name__}: {error}{place(error)}") from error
        return made if isinstance(made, tuple) else (made,)

    return kernel


def place(error: Exception) -> str:
    """The innermost line of the user's own that has led to an error."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(sys.prefix) and Path(frame.filename) != Path(__file__)
    ]
    return f" (in {frames[-1].name}, {Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


def load_subject(
    spec: Spec,
    folder: Path,
    rule: str = "",
    reference: str = "",
    edit: Callable[[PurePosixPath, str], str] = lambda _path, text: text,
) -> Subject:
    """Load what a spec gives.

    Args:
        spec: Checked.
        folder: The folder of the spec; its references lie in `reference` there.
        rule: `module:Class` of a distributed operator written by hand, instead of the generated one.
        reference: `module:function` instead of the spec's.
        edit: Gives the text that is used in the place of a rendered file's.

    Raises:
        SubjectError: Something that is named cannot be imported.
    """
    rendered = render_operator(derive_operator(spec, f"{folder.name}/{spec.op}.yaml"))
    files = {path: edit(path, text) for path, text in rendered.files.items()}
    package = generated_package(spec.op, files)
    generated = importlib.import_module(f"{package}.parallel_{spec.op}")
    class_name = rendered.index.class_name
    found_rule = imported(rule) if rule else getattr(generated, f"{class_name}DistributedOp")
    function = None
    if spec.kernel is not None:
        function = getattr(importlib.import_module(f"{package}.dfunction"), f"{class_name}DFunction")
    if reference:
        forward = imported(reference)
    elif spec.reference is not None:
        forward = from_folder(folder, spec.reference)
    else:
        raise SubjectError(
            f"{spec.op} has no reference to be judged by: write 'reference: module:function' into its spec, a NumPy "
            f"function in {folder / 'reference'}, or give one with --reference."
        )
    backward = from_folder(folder, spec.backward_reference) if spec.backward_reference else None
    sample = from_folder(folder, spec.sample) if spec.sample else None
    return Subject(spec, found_rule, function, forward, backward, sample, files)


def generated_package(op: str, files: Mapping[PurePosixPath, str]) -> str:
    """The rendered Python of one operator as a package of its own in this process; its name."""
    name = f"hpgen_verified_{next(_NUMBERS)}"
    package = ModuleType(name)
    package.__path__ = []
    sys.modules[name] = package
    for stem in (f"parallel_{op}", "dfunction"):
        text = files.get(PurePosixPath(op) / f"{stem}.py")
        if text is None:
            continue
        module = ModuleType(f"{name}.{stem}")
        module.__package__ = name
        sys.modules[module.__name__] = module
        exec(compile(text, f"{op}/{stem}.py", "exec"), module.__dict__)
        setattr(package, stem, module)
    return name


def from_folder(folder: Path, path: Reference) -> Callable[..., Any]:
    """A function of the references beside the specs."""
    package = reference_package(folder / "reference")
    try:
        module = importlib.import_module(f"{package}.{path.module}")
    except ModuleNotFoundError as error:
        raise SubjectError(f"the reference {path} cannot be imported from {folder / 'reference'}: {error}") from error
    except Exception as error:
        raise SubjectError(f"the reference {path} cannot be imported: {type(error).__name__}: {error}") from error
    found: Callable[..., Any] = member(module, path.function, str(path))
    return found


def reference_package(folder: Path) -> str:
    """The folder of references as a package of its own, imported once; its name."""
    with suppress(ImportError):
        import hyper_parallel.reference

        if Path(hyper_parallel.reference.__path__[0]).resolve() == folder.resolve():
            return "hyper_parallel.reference"
    name = f"hpgen_references_{abs(hash(folder.resolve())):x}"
    if name in sys.modules:
        return name
    start = folder / "__init__.py"
    if not folder.is_dir():
        raise SubjectError(f"there is no folder {folder}, in which references lie.")
    package = ModuleType(name)
    package.__path__ = [str(folder)]
    if start.is_file():
        package.__file__ = str(start)
    sys.modules[name] = package
    return name


def imported(path: str) -> Any:
    """`module:name` from the Python path, the current folder first."""
    module, _, name = path.partition(":")
    if not module or not name:
        raise SubjectError(f"{path!r} should be module:name.")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = importlib.import_module(module)
    except Exception as error:
        raise SubjectError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    return member(found, name, path)


def member(module: ModuleType, name: str, path: str) -> Any:
    found = getattr(module, name, None)
    if found is None:
        where = module.__file__ or module.__name__
        raise SubjectError(f"{path}: {where} has no {name!r}.")
    return found

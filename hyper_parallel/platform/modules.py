# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The interface to a framework's modules: the tree, the parameters, and the method that computes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar


class Modules(ABC):
    """What distribution needs of a framework's modules. Obtained from ``get_platform().modules``."""

    Module: ClassVar[type]
    """The base class of modules."""
    forward_name: ClassVar[str]
    """The name of the method that a call of a module runs."""

    def is_module(self, value: object) -> bool:
        """Return whether this is a module of the framework."""
        return isinstance(value, self.Module)

    @abstractmethod
    def named_modules(self, module: Any) -> dict[str, Any]:
        """Return the module (under the name "") and all modules below it, one that has two names under both."""

    @abstractmethod
    def module_table(self, module: Any) -> dict[str, Any]:
        """Return the dictionary of the modules directly below a module; None where there is none."""

    @abstractmethod
    def parameter_table(self, module: Any) -> dict[str, Any]:
        """Return the dictionary in which the module itself looks its own parameters up."""

    @abstractmethod
    def is_trainable(self, parameter: Any) -> bool:
        """Return whether a gradient of the parameter is wanted."""

    @abstractmethod
    def has_gradient(self, parameter: Any) -> bool:
        """Return whether the parameter holds a gradient."""

    @abstractmethod
    def copied_part(self, part: Any) -> Any:
        """Return a view of a tensor with memory of its own."""

    @abstractmethod
    def set_value(self, parameter: Any, value: Any) -> None:
        """Give a parameter another value, of any shape. The parameter stays the same object."""

    def as_tensor(self, parameter: Any) -> Any:
        """Return a parameter as what functions take, on the same memory."""
        return parameter

    def mark_stand_in(self, tensor: Any, parameter: Any) -> None:  # noqa: B027 - most need no mark
        """Tell the framework which parameter a tensor in a module's table stands for."""

    def recomputed_within(self, around: Callable[[], AbstractContextManager[None]]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Inside of this, have what a backward computes again run within ``around()``: where its modules stand bare."""
        return nullcontext()

    @abstractmethod
    def may_have_gradient(self, tensor: Any) -> bool:
        """Return whether autograd may come back to a tensor."""

    def is_sparse(self, gradient: Any) -> bool:  # noqa: ARG002
        """Return whether a gradient holds some of its elements only."""
        return False

    @abstractmethod
    def detached(self, tensor: Any) -> Any:
        """Return the values alone, outside of what autograd records."""

    @abstractmethod
    def to_array(self, tensor: Any) -> Any:
        """Return the values as a NumPy array on the host."""

    def differentiated_once(self, results: tuple[Any, ...], inputs: tuple[Any, ...]) -> tuple[Any, ...]:  # noqa: ARG002
        """Return gradients that a boundary has made of others; their derivative is an error, not a wrong number."""
        return results

    @abstractmethod
    def apply_function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call ``function.apply``, keywords too."""

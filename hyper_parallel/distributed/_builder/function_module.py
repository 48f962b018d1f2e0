# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A module around an autograd function, so that the function has a name at which a boundary can be declared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyper_parallel.platform import get_platform

if TYPE_CHECKING:

    class Module:
        """The framework's module."""

        def __init__(self) -> None: ...
else:
    Module = get_platform().modules.Module


class FunctionModule(Module):
    """An autograd function as a module: no parameters, no state, and the function's own backward.

    ``nn.Module`` on torch, ``nn.Cell`` on MindSpore. Several inputs are bound to a boundary's contract by name, which
    ``*args`` do not have; a subclass gives them names::

        class Scores(FunctionModule):
            def forward(self, query, key):
                return super().forward(query, key)

    On MindSpore as well: its ``construct`` calls ``forward``.

    Args:
        fn: the function's class, with ``apply``: of ``torch.autograd.Function``, of MindSpore's ``_Function``, or a
            ``DFunction``.

    Raises:
        TypeError: ``fn`` has no ``apply``.
    """

    def __init__(self, fn: type) -> None:
        # Modules have an apply too, which does something else.
        if not isinstance(fn, type) or issubclass(fn, Module) or not callable(getattr(fn, "apply", None)):
            raise TypeError(f"FunctionModule takes the class of an autograd function, with apply, but got {fn!r}")
        super().__init__()
        self._fn = fn

    @property
    def fn(self) -> type:
        """The function's class."""
        return self._fn

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return ``fn.apply`` of the arguments."""
        return get_platform().modules.apply_function(self._fn, args, kwargs)

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """Return ``forward`` of the arguments: the name that MindSpore calls."""
        return self.forward(*args, **kwargs)

    def extra_repr(self) -> str:
        """Return the function's name, for the module's repr."""
        return f"fn={self._fn.__name__}"

    extend_repr = extra_repr  # the name on MindSpore

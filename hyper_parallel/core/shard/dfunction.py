# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Autograd functions that also run on DTensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.shard._op_dispatch import _OP_DISPATCHER
from hyper_parallel.platform import get_platform


class LocalCallable:
    """A DFunction on local tensors, under the operator's name (`__name__` and `.name`) for the dispatcher."""

    def __init__(self, function: type[DFunction], op_name: str) -> None:
        self._function = function
        self.__name__ = op_name
        self.name = op_name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function.apply_local(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<local {self.name}>"


class DFunction(get_platform().Function):  # type: ignore[misc]
    """Base of distributed autograd functions: `forward` and `backward` on local tensors, and an operator's name.

    `apply` goes to the platform's autograd for plain tensors. As soon as any argument, positional or keyword, is a
    DTensor, it goes to the dispatcher, which finds the layout rule under `_op_name`, runs `apply` on the local tensors
    and wraps the outputs.

    Example::

        class Scale(DFunction):
            _op_name = "scale"

            @staticmethod
            def forward(ctx, x, factor=2.0):
                ctx.factor = factor
                return x * factor

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.factor, None
    """

    _op_name: ClassVar[str | None] = None
    bind_arguments: ClassVar[Callable[..., tuple[Any, ...]] | None] = None
    check_arguments: ClassVar[Callable[..., None] | None] = None

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the function on plain tensors or DTensors.

        Raises:
            ValueError: If a DTensor is given and `_op_name` is not set, or an argument does not fit the operator.
            RuntimeError: If a DTensor is given and no operator is registered under `_op_name`.
            TypeError: If an argument is missing, unknown or of the wrong type.
        """
        outcome = get_platform().apply_to_foreign(cls, args, kwargs)
        if outcome is not NotImplemented:
            return outcome
        if any(isinstance(value, DTensor) for value in (*args, *kwargs.values())):
            if cls._op_name is None:
                raise ValueError(
                    f"{cls.__name__} got a DTensor but has no _op_name. Set _op_name to the name of a registered "
                    "distributed operator, or pass local tensors."
                )
            return _OP_DISPATCHER.dispatch(cls._get_local_callable(), args, kwargs)
        bound = cls._bind(args, kwargs)
        if cls.check_arguments is not None:
            cls.check_arguments(*bound)
        return super().apply(*bound)

    @classmethod
    def apply_local(cls, *args: Any, **kwargs: Any) -> Any:
        """`apply` on local tensors whose call has been checked as a whole."""
        return super().apply(*cls._bind(args, kwargs))

    @classmethod
    def _bind(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """All arguments by position: not every framework's `apply` takes keywords."""
        if cls.bind_arguments is not None:
            return cls.bind_arguments(*args, **kwargs)
        if not kwargs:
            return args
        bound = inspect.signature(cls.forward).bind(None, *args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            names = ", ".join(bound.kwargs)
            raise TypeError(f"{cls.__name__}.forward should take {names} by position, not by keyword only.")
        return tuple(bound.args[1:])

    @classmethod
    def _get_local_callable(cls) -> LocalCallable:
        """The named callable that the dispatcher runs on local tensors, made once per class."""
        if "_local_callable" not in cls.__dict__:
            cls._local_callable = LocalCallable(cls, str(cls._op_name))
        return cls._local_callable  # type: ignore[no-any-return]

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Autograd functions that also run on DTensors."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.core.shard._op_dispatch import _OP_DISPATCHER
from hyper_parallel.platform import get_platform


class LocalCallable:
    """A DFunction on local tensors, under the operator's name (`__name__` and `.name`) for the dispatcher."""

    def __init__(self, function: type[DFunction], op_name: str) -> None:
        self.function = function
        self.__name__ = op_name
        self.name = op_name
        self.run_bound = function.run_bound
        """The same on all arguments by position, as they are bound."""
        self.run_checked = function.apply
        """The same with the checks of a call that is not distributed."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function.apply_local(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<local {self.name}>"


MOST_NESTED = 32
"""Calls of a function inside of one another."""


class _Running(threading.local):
    """The functions whose forward or backward this thread is in."""

    def __init__(self) -> None:
        self.functions: list[type] = []


_RUNNING = _Running()


class DFunction(get_platform().Function):  # type: ignore[misc]
    """Base of distributed autograd functions: `forward` and `backward` on local tensors, and an operator's name.

    `apply` goes to the platform's autograd for plain tensors. As soon as any argument, positional or keyword, alone or
    in a tuple, is a DTensor, it goes to the dispatcher, which finds the layout rule under `_op_name`, runs `apply` on
    the local tensors and wraps the outputs.

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
    run_bound: ClassVar[Callable[..., Any]]
    """The platform's autograd on all arguments by position."""
    _local_callable: ClassVar[LocalCallable | None] = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.run_bound = staticmethod(_counted(cls, super().apply))
        backward = cls.__dict__.get("backward")
        if isinstance(backward, staticmethod):
            cls.backward = staticmethod(_counted(cls, backward.__func__))
        get_platform().prepare_function(cls)

    @classmethod
    @get_platform().uncompiled
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run the function on plain tensors or DTensors.

        Raises:
            ValueError: If a DTensor is given and `_op_name` is not set, or an argument does not fit the operator.
            RuntimeError: If a DTensor is given and no operator is registered under `_op_name`; or from inside of the
                function's own forward or backward.
            TypeError: If an argument is missing, unknown or of the wrong type.
        """
        kinds = (*map(type, args), *map(type, kwargs.values())) if kwargs else (*map(type, args),)
        route = _ROUTES.get(kinds) or _route(kinds)
        if route == FOREIGN:
            return get_platform().apply_to_foreign(cls, args, kwargs)
        if route == DISTRIBUTED or (route == NESTED and holds_dtensor((*args, *kwargs.values()))):
            return _OP_DISPATCHER.dispatch(cls._get_local_callable(), args, kwargs)
        bound = cls._bind(args, kwargs)
        if cls.check_arguments is not None:
            cls.check_arguments(*bound)
        return cls.run_bound(*bound)

    @classmethod
    def apply_local(cls, *args: Any, **kwargs: Any) -> Any:
        """`apply` on local tensors whose call has been checked as a whole."""
        return cls.run_bound(*cls._bind(args, kwargs))

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
        """The named callable that the dispatcher runs on local tensors, made once per class and name."""
        found = cls._local_callable
        if found is None or found.function is not cls or found.name != cls._op_name:
            if cls._op_name is None:
                raise ValueError(
                    f"{cls.__name__} got a DTensor but has no _op_name. Set _op_name to the name of a registered "
                    "distributed operator, or pass local tensors."
                )
            found = cls._local_callable = LocalCallable(cls, cls._op_name)
        return found


FOREIGN, DISTRIBUTED, NESTED, PLAIN = "foreign", "distributed", "nested", "plain"
MOST_ROUTES = 1024
_ROUTES: dict[tuple[type, ...], str] = {}


def _route(kinds: tuple[type, ...]) -> str:
    """Where a call with arguments of these types goes; `NESTED` depends on what is inside of them."""
    if any(map(get_platform().is_foreign, kinds)):
        route = FOREIGN
    elif DTensor in kinds:
        route = DISTRIBUTED
    else:
        route = NESTED if tuple in kinds or list in kinds else PLAIN
    if len(_ROUTES) >= MOST_ROUTES:
        _ROUTES.clear()
    _ROUTES[kinds] = route
    return route


def holds_dtensor(values: Iterable[Any]) -> bool:
    """Whether there is a DTensor among values, or in a tuple or list of them at any depth."""
    types = [*map(type, values)]
    if DTensor in types:
        return True
    if tuple in types or list in types:
        return any(holds_dtensor(value) for value in values if isinstance(value, tuple | list))
    return False


def _counted(cls: type, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which counts how deep inside of itself it is called."""

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        running = _RUNNING.functions
        # Not at once: a checkpoint computes a function's forward again from inside of its backward.
        if len(running) >= MOST_NESTED and running.count(cls) >= MOST_NESTED:
            raise RuntimeError(
                f"{cls.__name__}.apply was called from inside of its own forward or backward {MOST_NESTED} times over, "
                "as if for ever. Compute with the framework's operators there, or call another function."
            )
        running.append(cls)
        try:
            return function(*args)
        finally:
            running.pop()

    return call

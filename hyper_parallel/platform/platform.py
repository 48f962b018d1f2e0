# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The interface that every framework implements."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from hyper_parallel.core.dtensor.device_mesh import DeviceMesh
    from hyper_parallel.platform.index import Index
    from hyper_parallel.platform.modules import Modules


class Platform(ABC):
    """Tensors, autograd, ranks and collectives of one framework. Obtained from ``get_platform()``."""

    name: ClassVar[str]
    Function: ClassVar[type]
    """Base class of differentiable functions: static ``forward(ctx, *args)`` and ``backward(ctx, *grads)``."""
    DTensorBase: ClassVar[type]
    """Base class of DTensor: how the framework's own functions treat one."""
    symbolic_integers: ClassVar[tuple[type, ...]] = ()
    """The types that stand for integers where the framework traces a computation."""

    @property
    @abstractmethod
    def custom_ops(self) -> Any:
        """The class whose static methods are the operators of this platform."""

    @property
    def modules(self) -> Modules:
        """The framework's modules.

        Raises:
            RuntimeError: the platform has none.
        """
        raise RuntimeError(
            f"the {self.name} platform has no modules, so there is nothing to declare a boundary at; set "
            "HYPER_PARALLEL_PLATFORM to torch or mindspore"
        )

    def load_kernel(self, op_name: str) -> Callable[..., Any]:
        """Return the function that computes operator ``op_name`` on local tensors, arguments in API order."""
        kernel: Callable[..., Any] = self._load_custom_op_kernel(op_name)
        return kernel

    @cached_property
    def _load_custom_op_kernel(self) -> Callable[[str], Callable[..., Any]]:
        load: Callable[[str], Callable[..., Any]] = self._from_custom_ops("custom_op_impl", "load_kernel")
        return load

    def _from_custom_ops(self, module: str, attribute: str) -> Any:
        # On demand: the operators import the runtime, which needs the platform first.
        path = f"hyper_parallel.platform.{self.name}.custom_ops.{module}"
        return getattr(importlib.import_module(path), attribute)

    def get_op_name(self, func: Any) -> str:
        """Return the name under which ``func`` is looked up in the operator registry.

        Raises:
            TypeError: ``func`` has no name.
        """
        for attribute in ("name", "__name__"):
            name = getattr(func, attribute, None)
            if isinstance(name, str):
                return name
        raise TypeError(f"an operator should have a name, but {func!r} has neither .name nor .__name__")

    def is_foreign(self, kind: type) -> bool:  # noqa: ARG002
        """Return whether this is the type of the framework's own DTensors."""
        return False

    def apply_to_foreign(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a DFunction on DTensors of the framework's own."""
        raise NotImplementedError(f"{self.name} has no DTensors of its own")

    def called_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function whose parameters a call of ``function`` has: of a module, the method that it runs."""
        return function

    @property
    def records_backward(self) -> bool:
        """Whether the backward that runs now is recorded, to be differentiated once more."""
        return False

    @abstractmethod
    def is_tensor(self, value: object) -> bool:
        """Return whether ``value`` is a tensor of the framework itself (a DTensor is not)."""

    def as_tensor(self, value: Any) -> Any:
        """Return ``value`` if it is a tensor of the framework, or what it has for one without dimensions; else None."""
        return value if self.is_tensor(value) else None

    @abstractmethod
    def dtype_name(self, value: Any) -> str:
        """Return the dtype of anything with ``.dtype``, as "float32", "bfloat16", "int64", ..."""

    def uncompiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, kept out of what the framework's compiler traces: it runs as it is."""
        return function

    def prepare_function(self, function: type) -> None:  # noqa: B027 - most have nothing to do
        """Called once with the class of every DFunction, as soon as there is one."""

    def described(self, tensor: Any) -> tuple[Any, ...]:
        """Return what tells plain tensors of one shape apart, apart from their values: the dtype, and the device."""
        return (tensor.dtype,)

    @abstractmethod
    def is_on_host(self, tensor: Any) -> bool:
        """Return whether a plain tensor lies in host memory."""

    def has_values(self, tensor: Any) -> bool:  # noqa: ARG002 - only some platforms have tensors without
        """Return whether a plain tensor has elements; where a computation is traced it has a shape and a dtype only."""
        return True

    def host_integers(self, value: Any) -> tuple[int, ...]:
        """Return a list, tuple or 1-D tensor of integers as Python integers.

        Raises:
            TypeError: ``value`` is something else, or its elements are not integers (bool is none).
            ValueError: ``value`` is a tensor that is not 1-D.
        """
        if isinstance(value, list | tuple):
            if set(map(type, value)) == {int}:  # every call comes here with its document ends
                return tuple(value)
            return tuple(self._integer(element, value) for element in value)
        if not self.is_tensor(value):
            raise TypeError(f"expected a list, tuple or 1-D tensor of integers, but got {type(value).__name__}")
        if value.ndim != 1:
            raise ValueError(f"expected a 1-D tensor of integers, but got shape {tuple(value.shape)}")
        dtype = self.dtype_name(value)
        if not dtype.startswith(("int", "uint")):
            raise TypeError(f"expected a tensor of integers, but got dtype {dtype}")
        return tuple(self._to_host_list(value))

    def _integer(self, element: Any, value: object) -> int:
        if type(element) is int:
            return element
        if isinstance(element, self.symbolic_integers):
            return element  # type: ignore[return-value]
        if isinstance(element, Integral) and not isinstance(element, bool):
            return int(element)
        raise TypeError(f"expected integers, but got {element!r} ({type(element).__name__}) in {value!r}")

    def _to_host_list(self, tensor: Any) -> list[int]:
        elements: list[int] = tensor.tolist()
        return elements

    def any_nonzero(self, tensor: Any) -> bool:
        """Return whether an element of ``tensor`` is not zero."""
        return bool((tensor != 0).any())

    @abstractmethod
    def narrow(self, tensor: Any, dim: int, start: int, length: int) -> Any:
        """Return elements ``start .. start+length`` of dimension ``dim``, as a view where the framework has views."""

    @abstractmethod
    def take(self, tensor: Any, dim: int, index: Index) -> Any:
        """Return the elements at the places ``index`` of dimension ``dim``, as a copy. Differentiable."""

    @abstractmethod
    def concatenate(self, tensors: Sequence[Any], dim: int) -> Any:
        """Return the tensors one after the other along ``dim``. Differentiable."""

    @abstractmethod
    def combine(self, first: Any, second: Any, op: str) -> Any:
        """Return the elementwise sum, max or min (``op``) of two tensors of one dtype. The sum is differentiable."""

    @abstractmethod
    def scaled(self, tensor: Any, factor: Any) -> Any:
        """Return ``tensor * factor`` in the dtype of ``tensor``; the factor is a tensor of one element."""

    @abstractmethod
    def integer_tensor(self, values: Any, dtype: str, like: Any) -> Any:
        """Return integers (a list, tuple or tensor) as a 1-D tensor of ``dtype`` on the device of ``like``."""

    @abstractmethod
    def zeros_like(self, tensor: Any) -> Any:
        """Return zeros with the shape and dtype of ``tensor``."""

    @abstractmethod
    def zeros(self, shape: tuple[int, ...], like: Any) -> Any:
        """Return zeros with the dtype of ``like``, on its device."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """The number of this rank in the world."""

    @property
    @abstractmethod
    def world_size(self) -> int:
        """The number of ranks in the world."""

    @property
    def session(self) -> object:
        """A hashable object that changes when communication groups made earlier have become invalid."""
        return None

    @abstractmethod
    def init_backend(self, device_type: str, world_size: int) -> None:
        """Make communication between ``world_size`` ranks possible. Does nothing if it is already.

        Raises:
            ValueError: the platform has no device of that type.
            RuntimeError: the environment does not say how to reach the other ranks.
        """

    def create_groups(self, mesh: DeviceMesh) -> Sequence[Any] | None:  # noqa: ARG002 - only some platforms have groups
        """Create a group along every axis of ``mesh``; called once, on every rank of the mesh."""
        return None

    def create_merged_group(self, mesh: DeviceMesh, axes: tuple[int, ...]) -> Any:  # noqa: ARG002
        """Create the group of the ranks along several axes together; called once, on every rank of the mesh."""
        return None

    @abstractmethod
    def get_group(self, mesh: DeviceMesh, axis: int) -> Any:
        """Return the framework's handle of the ranks along ``axis`` through this rank."""

    @abstractmethod
    def all_reduce(self, tensor: Any, op: str, mesh: DeviceMesh, axis: int) -> Any:
        """Return the elementwise sum, avg, max or min (``op``) over the ranks along ``axis``, on every one of them.

        Raises:
            TypeError: sum or avg of bool, avg of integers.
        """

    @abstractmethod
    def all_gather(self, tensor: Any, dim: int, mesh: DeviceMesh, axis: int) -> Any:
        """Return the concatenation along ``dim`` of the tensors of the ranks along ``axis``, in their order."""

    def reduce_scatter(self, tensor: Any, op: str, dim: int, mesh: DeviceMesh, axis: int) -> Any:
        """Return what ``all_reduce`` gives for ``op``, sum or avg, of it this rank's chunk of ``dim``."""
        length = tensor.shape[dim] // mesh.mesh_shape[axis]
        reduced = self.all_reduce(tensor, op, mesh, axis)
        return self.narrow(reduced, dim, mesh.get_local_rank(axis) * length, length)

    def all_to_all(self, tensor: Any, split_dim: int, concat_dim: int, mesh: DeviceMesh, axis: int) -> Any:
        """Return what ``all_gather`` along ``concat_dim`` gives, of it this rank's chunk of ``split_dim``."""
        length = tensor.shape[split_dim] // mesh.mesh_shape[axis]
        gathered = self.all_gather(tensor, concat_dim, mesh, axis)
        return self.narrow(gathered, split_dim, mesh.get_local_rank(axis) * length, length)

    def check_reducible(self, tensor: Any, op: str) -> None:
        """Raise TypeError if ``op`` has no meaning for the dtype of ``tensor``."""
        dtype = self.dtype_name(tensor)
        if (dtype == "bool" and op in ("sum", "avg")) or (dtype.startswith(("int", "uint")) and op == "avg"):
            raise TypeError(
                f"a {op} over ranks needs numbers that can be divided or added, but got a tensor of {dtype}"
            )

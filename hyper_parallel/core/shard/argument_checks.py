# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of an operator's arguments, called by generated code before anything is launched.

Each takes the argument's name and value and raises with what was expected and what was given. Tensors may be plain or
DTensors: the shape of a DTensor is the global one.
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from hyper_parallel.core.dtensor.dtensor import DTensor
from hyper_parallel.platform import get_platform
from hyper_parallel.platform.tensor_origin import is_from_elsewhere, what_it_is

INT64_MAX = 2**63 - 1
MOST_FACTORIAL = 20
HOST_DTYPES = ("float32", "float64")
"""What the kernels on the host and the references take besides the NPU kernel's dtypes."""
DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
)


def factorial(n: int) -> int:
    """n!, as the kernels' code has it: of 64 bits. ValueError for any n but 0 to 20."""
    if not 0 <= n <= MOST_FACTORIAL:
        raise ValueError(f"fact({n}) is outside of fact(0) to fact({MOST_FACTORIAL}), 64 bits")
    return math.factorial(n)


@dataclass(frozen=True)
class UnreadEnds:
    """Document ends of which only the number is known, because the tensor that holds them has no values."""

    count: int


class ArgumentChecks:
    """The checks of one operator; `op` is its name, for the messages."""

    def __init__(self, op: str) -> None:
        self.op = op

    def shape(self, name: str, tensor: Any) -> tuple[int, ...]:
        """The shape of a tensor, the global one of a DTensor."""
        shape = getattr(tensor, "shape", None)
        if shape is None:
            raise TypeError(f"For {self.op}, {name} should be a tensor, but got {type(tensor).__name__}.")
        if is_from_elsewhere(type(tensor)):
            self._elsewhere(name, tensor)
        return tuple(shape)

    def _elsewhere(self, name: str, tensor: Any) -> NoReturn:
        raise TypeError(f"For {self.op}, {name} {what_it_is(tensor)}.") from None

    def dims(
        self, name: str, tensor: Any, dims: str, expected: tuple[int | None, ...], own: bool = False
    ) -> tuple[int, ...]:
        """The shape of a tensor with the given dims; `expected` holds the extents that are known, else None.

        A tensor of which each data-parallel group has its `own` counts with its local shape.
        """
        shape = self.shape(name, tensor.to_local() if own and isinstance(tensor, DTensor) else tensor)
        if len(shape) != len(expected):
            words = ", ".join(dim_names(dims, len(expected)))
            self.fail(f"{name} should have the {len(expected)} dims ({words}), but got shape {shape}")
        for index, (extent, known) in enumerate(zip(shape, expected, strict=True)):
            if known is not None and extent != known:
                self.extent(name, index, dim_names(dims, len(expected))[index], extent, known)
        return shape

    def any_rank(self, name: str, tensor: Any, dims: str) -> tuple[int, ...]:
        """The shape of a tensor that may have any number of dims besides the named ones."""
        shape, least = self.shape(name, tensor), len(dims.split()) - 1
        if len(shape) < least:
            self.fail(f"{name} should have at least {least} dims ({dims}), but got shape {shape}")
        return shape

    def axis(self, argument: str, axis: int, name: str, tensor: Any, before: int = 0, after: int = 0) -> int:
        """The extent of the dim that an attribute chooses; negative numbers count from the last.

        The tensor's first `before` and last `after` dims have names of their own and cannot be chosen.
        """
        shape = self.shape(name, tensor)
        place = axis + len(shape) if axis < 0 else axis
        if not before <= place < len(shape) - after:
            first, last = before - len(shape), len(shape) - after - 1
            self.fail(f"{argument} should be from {first} to {last}, a dim of {name}, but got {axis}")
        return shape[place]

    def extent(self, name: str, dim: int, dim_name: str, given: int, expected: int) -> None:
        """One extent that follows from other dims."""
        if given != expected:
            self.fail(f"{dim_name} (dim {dim}) of {name} should be {expected}, but got {given}")

    def rank(self, name: str, tensor: Any, *ranks: int) -> int:
        """The number of dims of a tensor whose rank tells the format."""
        given = len(getattr(tensor, "shape", ()))
        if given not in ranks:
            self.fail(f"{name} should have {' or '.join(str(rank) for rank in ranks)} dims, but got {given}")
        return given

    def dtype(self, name: str, tensor: Any, *allowed: str, host: bool = False) -> str:
        """The dtype's name if it is one of `allowed`; with `host` also float32 and float64 for a tensor on the host."""
        platform = get_platform()
        if not hasattr(tensor, "dtype"):
            raise TypeError(f"For {self.op}, {name} should be a tensor, but got {type(tensor).__name__}.")
        if is_from_elsewhere(type(tensor)):
            self._elsewhere(name, tensor)
        given = platform.dtype_name(tensor)
        if given in allowed:
            return given
        on_host = host and platform.is_on_host(tensor.to_local() if isinstance(tensor, DTensor) else tensor)
        if on_host and given in HOST_DTYPES:
            return given
        words = ", ".join(dict.fromkeys((*allowed, *HOST_DTYPES) if on_host else allowed))
        raise TypeError(f"For {self.op}, {name} should have dtype {words}, but got {given}.")

    def attribute(self, name: str, value: Any, kind: type) -> None:
        """The type of an attribute; an int will do for a float, a bool not for an int."""
        fits = isinstance(value, int | float) if kind is float else isinstance(value, kind)
        if kind is int and fits and not -INT64_MAX - 1 <= value <= INT64_MAX:
            self.fail(f"{name} should fit into 64 bits, but got {value}")
        if not fits and kind is int and isinstance(value, get_platform().symbolic_integers):
            return
        if not fits or (isinstance(value, bool) and kind is not bool):
            got = f"{value!r} of type {type(value).__name__}"
            if isinstance(value, numbers.Number) and not isinstance(value, int | float) and kind in (int, float):
                got += f"; convert it: {kind.__name__}({name})"
            raise TypeError(f"For {self.op}, {name} should be of type {kind.__name__}, but got {got}.")

    def choice(self, name: str, value: Any, *choices: Any) -> None:
        """One of an enumeration's values."""
        if value not in choices:
            words = ", ".join(repr(choice) for choice in choices)
            wanted = f"be one of {words}" if len(choices) > 1 else f"be {words}"
            self.fail(f"{name} should {wanted}, but got {value!r}")

    def given(self, name: str, value: Any) -> None:
        """An argument that must not be None."""
        if value is None:
            raise TypeError(f"For {self.op}, {name} should be given, but got None.")

    def absent(self, name: str, value: Any, dim: str, form: str) -> None:
        """An argument about a dim that the format does not have."""
        if value is not None:
            self.fail(f"{name} should be None in format {form}, which has no dim {dim}, but got {value!r}")

    def host_lengths(self, name: str, value: Any) -> tuple[int, ...] | UnreadEnds | None:
        """Document ends as integers on the host, from a list, a tensor or a DTensor; None stays None."""
        if value is None:
            return None
        local, platform = value.to_local() if isinstance(value, DTensor) else value, get_platform()
        if platform.is_tensor(local) and not platform.has_values(local):
            return UnreadEnds(local.shape[0])
        try:
            return platform.host_integers(local)
        except (TypeError, ValueError) as error:
            if is_from_elsewhere(type(local)):
                self._elsewhere(name, local)
            raise type(error)(f"For {self.op}, {name} should be cumulative document ends: {error}") from None

    def device_lengths(self, name: str, value: Any, dtype: str, like: Any) -> Any:
        """Document ends as a tensor on the device, from a list, a tensor or a DTensor; None stays None."""
        if value is None:
            return None
        local = value.to_local() if isinstance(value, DTensor) else value
        if get_platform().is_tensor(local) and get_platform().dtype_name(local) == dtype:
            return local
        ends = self.host_lengths(name, local) or ()
        if isinstance(ends, UnreadEnds):
            given = get_platform().dtype_name(local)
            raise TypeError(f"For {self.op}, {name} should have dtype {dtype}, but got {given}.")
        limit = 2**31 - 1 if dtype == "int32" else INT64_MAX
        if any(not 0 <= end <= limit for end in ends):
            self.fail(f"{name} should fit into {dtype}, but got {_short(ends)}")
        return get_platform().integer_tensor(ends, dtype, like.to_local() if isinstance(like, DTensor) else like)

    def integers(self, name: str, value: Any) -> tuple[int, ...] | None:
        """A list of integers; None stays None."""
        if value is None:
            return None
        try:
            found = get_platform().host_integers(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"For {self.op}, {name} should be a list of integers: {error}") from None
        if any(abs(item) > INT64_MAX for item in found):
            self.fail(f"{name} should fit into 64 bits, but got {found}")
        return found

    def dtype_word(self, name: str, value: Any) -> str:
        """The name of a dtype, from a dtype of the framework, of NumPy, or its name."""
        word = (
            value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", str(value))
        )
        word = str(word).split(".")[-1].lower()
        if word not in DTYPES:
            self.fail(f"{name} should be a dtype, one of {', '.join(DTYPES)}, but got {value!r}")
        return word

    def documents(self, name: str, ends: Sequence[int] | UnreadEnds | None, leading_zero: bool = False) -> int | None:
        """The number of documents; None if there are no document ends."""
        if ends is None:
            return None
        if isinstance(ends, UnreadEnds):
            return ends.count - leading_zero
        if leading_zero:
            self.leading_zero(name, ends)
        return len(ends) - leading_zero

    def leading_zero(self, name: str, ends: Sequence[int]) -> None:
        """Document ends that say where the first document starts."""
        if len(ends) < 2 or ends[0] != 0:
            self.fail(f"{name} should start with 0 and hold at least one document end, but got {_short(ends)}")

    def document_ends(
        self,
        name: str,
        ends: Sequence[int] | UnreadEnds | None,
        dim: str,
        extent: int,
        leading_zero: bool = False,
        groups: int = 1,
        ranks: int = 1,
    ) -> None:
        """Cumulative document ends: they do not decrease and end at the tokens of one of the data-parallel `groups`.

        The tokens of a group may lie on several `ranks`: the ends are those of whole documents.
        """
        if ends is None or isinstance(ends, UnreadEnds):
            return
        if leading_zero:
            self.leading_zero(name, ends)
        last = 0
        for index, end in enumerate(ends):
            if end < last:
                self.fail(f"{name} should not decrease, but got {end} after {last} at index {index}: {_short(ends)}")
            last = end
        if not ends or last != extent:
            of_group = " of this data-parallel group" if groups > 1 else ""
            whole = (
                f". These end at the tokens of all {groups} groups: each group passes its own documents, counted from "
                "zero; for context parallelism gather the keys first, redistribute(mesh, placements) with Replicate()"
            )
            per_rank = (
                f". These end at the tokens of one of the {ranks} ranks that share a sequence: pass the ends of whole "
                "documents, the same on each of these ranks; the cut is made here"
            )
            self.fail(
                f"{name} should end at {dim} = {extent}, the number of tokens{of_group}, but got {_short(ends)}"
                + (whole if groups > 1 and last == extent * groups else "")
                + (per_rank if ranks > 1 and last * ranks == extent else "")
            )

    def same_documents(
        self,
        first: str,
        ends: Sequence[int] | UnreadEnds | None,
        second: str,
        others: Sequence[int] | UnreadEnds | None,
        leading_zeros: tuple[bool, bool] = (False, False),
    ) -> None:
        """Two lists of ends that speak of the same documents; either may start with a zero that ends none."""
        if ends is None or others is None:
            return
        counts = _count(ends) - leading_zeros[0], _count(others) - leading_zeros[1]
        if counts[0] != counts[1]:
            self.fail(f"{first} and {second} should have as many documents, but got {counts[0]} and {counts[1]}")

    def per_group(self, dim: str, extent: int, groups: int) -> int:
        """The part of a packed dim that one data-parallel group holds."""
        if extent % groups:
            self.fail(f"{dim} should be divisible by the {groups} groups that shard it, but got {extent}")
        return extent // groups

    def no_cotangent(self, output: str, cotangent: Any) -> None:
        """An output whose gradient the backward does not use must not get one other than zero."""
        if cotangent is None or not get_platform().has_values(cotangent):
            return
        if get_platform().any_nonzero(cotangent):
            raise RuntimeError(f"For {self.op}, {output} has no gradient, but the loss depends on it. Detach {output}.")

    def require(self, condition: str, /, **values: Any) -> NoReturn:
        """Raise for a requirement that does not hold; `values` are what its names stand for."""
        got = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in values.items())
        self.fail(f"{condition} is required, but got {got}")

    def fail(self, message: str) -> NoReturn:
        raise ValueError(f"For {self.op}, {message}.")


def dim_names(dims: str, rank: int) -> list[str]:
    """The names of a tensor's dims; `...` is repeated for every dim it stands for."""
    words = dims.split()
    if "..." not in words:
        return words
    index = words.index("...")
    return [*words[:index], *["..."] * (rank - len(words) + 1), *words[index + 1 :]]


def _count(ends: Sequence[int] | UnreadEnds) -> int:
    return ends.count if isinstance(ends, UnreadEnds) else len(ends)


def _short(ends: Sequence[int]) -> str:
    """Document ends for a message: all if they are few."""
    shown = [str(end) for end in ends[:8]]
    return "[" + ", ".join(shown + (["..."] if len(ends) > len(shown) else [])) + "]"

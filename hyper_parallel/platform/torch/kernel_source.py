# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Where a DFunction gets its kernels from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_INSTEAD: ContextVar[Callable[..., Any] | None] = ContextVar("kernel", default=None)


def given_kernel() -> Callable[..., Any] | None:
    """What `load_kernel` returns in this block, whatever operator is asked for; None outside of any."""
    return _INSTEAD.get()


@contextmanager
def kernel_instead(kernel: Callable[..., Any]) -> Iterator[None]:
    """Let a DFunction's `forward` or `backward` call this instead of the kernel that it loads."""
    token = _INSTEAD.set(kernel)
    try:
        yield
    finally:
        _INSTEAD.reset(token)

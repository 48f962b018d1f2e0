# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Switching the dispatcher off for a while, for this thread: operators then run on local tensors as they are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Switch(threading.local):
    disabled: bool = False


_SWITCH = _Switch()


def disable_dtensor_dispatch() -> None:
    """From now on, in this thread, an operator called with DTensors runs on their local tensors and returns those."""
    _SWITCH.disabled = True


def enable_dtensor_dispatch() -> None:
    """Take `disable_dtensor_dispatch` back."""
    _SWITCH.disabled = False


@contextmanager
def dtensor_dispatch(enabled: bool) -> Iterator[None]:
    """Switch the dispatcher on or off for a block; blocks nest, and what was before comes back."""
    before = _SWITCH.disabled
    _SWITCH.disabled = not enabled
    try:
        yield
    finally:
        _SWITCH.disabled = before

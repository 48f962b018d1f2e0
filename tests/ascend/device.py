# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the fake device says of itself (csrc/fake_cann/report.h)."""

from __future__ import annotations

import ctypes
from contextlib import suppress

import mindspore as ms

KINDS = ("tensor", "int array", "scalar", "executor")


class FakeDevice:
    """The device of this process."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libascendcl.so")
        self._library.fake_cann_take_faults.restype = ctypes.c_char_p
        for name in ("fake_cann_live", "fake_cann_planned", "fake_cann_launched"):
            getattr(self._library, name).restype = ctypes.c_int64

    def take_faults(self) -> list[str]:
        """What a device would not forgive, since the last time; after all that has been handed over is done."""
        with suppress(RuntimeError):  # said in the faults
            ms.runtime.synchronize()
        said = self._library.fake_cann_take_faults().decode()
        return [line.removeprefix("fake CANN: ") for line in said.splitlines()]

    def live(self) -> dict[str, int]:
        """How many of CANN's objects have not been destroyed."""
        ms.runtime.synchronize()
        return {kind: self._library.fake_cann_live(kind.encode()) for kind in KINDS}

    def planned(self) -> int:
        """How many calls have been planned."""
        ms.runtime.synchronize()
        return self._library.fake_cann_planned()

    def launched(self) -> int:
        """How many kernels have been launched."""
        ms.runtime.synchronize()
        return self._library.fake_cann_launched()

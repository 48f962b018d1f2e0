# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The references are what compiled kernels are compared with; they must not stand in for them."""

from __future__ import annotations

from typing import NoReturn

from hyper_parallel import library


def forbid_references() -> None:
    """From now on in this process, a kernel that is a reference is an error."""

    def refuse(kernel: str) -> NoReturn:
        raise AssertionError(f"the kernel {kernel} would be its reference")

    library.reference = refuse

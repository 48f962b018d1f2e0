# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What the operator tests watch: whether a kernel or a collective was started."""

from __future__ import annotations

from typing import Any

import pytest

from hyper_parallel.platform.numpy.platform import NumpyPlatform
from hyper_parallel.platform.numpy.virtual_ranks import World


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels loaded and the collectives entered since the test began, by any rank."""
    started: list[str] = []
    load_kernel, exchange = NumpyPlatform.load_kernel, World.exchange

    def watched_load_kernel(self: NumpyPlatform, op_name: str) -> Any:
        started.append(op_name)
        return load_kernel(self, op_name)

    def watched_exchange(self: World, ranks: tuple[int, ...], rank: int, value: Any, what: str) -> list[Any]:
        started.append(what)
        return exchange(self, ranks, rank, value, what)

    monkeypatch.setattr(NumpyPlatform, "load_kernel", watched_load_kernel)
    monkeypatch.setattr(World, "exchange", watched_exchange)
    return started

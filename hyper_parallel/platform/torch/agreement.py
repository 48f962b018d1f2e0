# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the ranks of a collective on the host bring the same: gloo does not look.

It takes bytes for what they are not where their number agrees. Where it does not, one rank is aborted and the others go
on with what happens to lie in memory. A small exchange before each collective finds both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import torch.distributed as dist

from hyper_parallel.platform.peers import check_agreement, collective_facts

TEXT_BYTES = 256


def check_on_host(what: str, tensor: torch.Tensor, group: Any, ranks: Sequence[int]) -> None:
    """Raise ValueError on every rank if they do not bring tensors of one shape and dtype to the same collective.

    Nothing is exchanged for tensors on a device: their backends are for speed, and each exchange would wait for it.
    """
    if tensor.device.type != "cpu" or len(ranks) == 1:
        return
    text = collective_facts(what, tensor.shape, str(tensor.dtype).removeprefix("torch."))
    own = _digest(text)
    if all(torch.equal(found, own) for found in _gathered(own, group, len(ranks))):
        return
    texts = _gathered(_bytes(text.encode()[:TEXT_BYTES].ljust(TEXT_BYTES)), group, len(ranks))
    check_agreement(what, sorted(ranks), [bytes(found.tolist()).decode().rstrip() for found in texts])


def _gathered(tensor: torch.Tensor, group: Any, count: int) -> list[torch.Tensor]:
    """The tensors of the ranks, in ascending order of the ranks, as groups of torch keep them."""
    parts = [torch.empty_like(tensor) for _ in range(count)]
    dist.all_gather(parts, tensor, group)
    return parts


@lru_cache(maxsize=1024)
def _digest(text: str) -> torch.Tensor:
    return _bytes(hashlib.sha256(text.encode()).digest())


def _bytes(data: bytes) -> torch.Tensor:
    return torch.tensor(list(data), dtype=torch.uint8)

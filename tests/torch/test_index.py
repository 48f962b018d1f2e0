# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Places along a dim on torch: uploaded once, and usable in every mode whichever came first."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from hyper_parallel import get_platform
from hyper_parallel.platform.index import Index

PLACES = [3, 0, 2]


def fake():
    return FakeTensorMode(allow_non_fake_inputs=True)


@pytest.mark.parametrize("first", [torch.enable_grad, torch.no_grad, torch.inference_mode, fake])
def test_a_gradient_flows_whichever_mode_came_first(first):
    index = Index(np.array(PLACES))
    with first():
        get_platform().take(torch.ones(4, 2), 0, index)
    tensor = torch.arange(8.0).reshape(4, 2).requires_grad_()
    taken = get_platform().take(tensor, 0, index)
    assert torch.equal(taken, tensor[PLACES])
    (taken * torch.tensor([[1.0], [2.0], [3.0]])).sum().backward()
    assert tensor.grad[:, 0].tolist() == [2, 0, 3, 1]


def test_the_tensor_of_the_places_is_made_once(monkeypatch):
    made = []
    tensor = torch.tensor
    monkeypatch.setattr(torch, "tensor", lambda *args, **kwargs: made.append(args) or tensor(*args, **kwargs))
    index = Index(np.array(PLACES))
    for _ in range(3):
        get_platform().take(torch.ones(4, 2), 0, index)
    assert len(made) == 1

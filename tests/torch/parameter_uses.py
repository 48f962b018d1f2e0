# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Small modules that use their parameters in all sorts of ways."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH = 6


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.randn(WIDTH))
        self.late = None

    def forward(self, x):
        y = self.inner(x).tanh() * self.scale
        return y if self.late is None else y + self.late


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 8)
        self.down = nn.Linear(8, WIDTH, bias=False)

    def forward(self, x):
        return self.down(self.up(x).tanh())


class Listed(Net):
    """Looks its parameters up in places of its own."""

    def __init__(self):
        super().__init__()
        self.listed = [self.scale, self.inner.weight]
        self.named = {"bias": self.inner.bias}
        self.fixed = (self.scale,)

    def forward(self, x):
        scale, weight = self.listed
        return (x @ weight.T + self.named["bias"]) * scale + self.fixed[0]


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x):
        return self.cells(x[:, None])[0][:, 0]


class Twice(Net):
    def forward(self, x):
        return super().forward(super().forward(x))


class Around(nn.Module):
    """Uses a parameter of a module below, which has a boundary of its own, by itself too."""

    def __init__(self):
        super().__init__()
        self.net = Net()
        self.tied = nn.Linear(WIDTH, WIDTH, bias=False)
        self.tied.weight = self.net.inner.weight

    def forward(self, x):
        return self.tied(self.net(x)) @ self.net.inner.weight * self.net.scale


class Checkpointed(Net):
    def forward(self, x):
        return checkpoint(self.inner, x, use_reentrant=False).tanh() * self.scale


class Reentrant(Net):
    """Computes a part again, that uses a parameter by itself, a module, and another checkpoint."""

    def part(self, x):
        return checkpoint(self.inner, x * self.scale, use_reentrant=True).tanh() * self.scale

    def forward(self, x):
        return checkpoint(self.part, x * self.scale, use_reentrant=True) * self.scale


class ReentrantAround(Around):
    def forward(self, x):
        return checkpoint(super().forward, x * self.net.scale, use_reentrant=True)


class Lora(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(2, WIDTH)), nn.Parameter(torch.randn(WIDTH, 2))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2

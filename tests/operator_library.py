# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operator library of docs/operator_library as if pip had installed it, and processes that see it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "docs" / "operator_library"
OP = "acme_gated_add"
TITLE = "The operator library 'acme' (acme-ops 1.0.0)"


def install(site: Path, package: str = "acme_ops", point: str | None = None) -> Path:
    """Copy the example's package into `site`, with the metadata that a wheel brings; returns the package's folder."""
    shutil.copytree(EXAMPLE / "acme_ops", site / package, ignore=shutil.ignore_patterns("__pycache__"))
    announce(site, package, point or f"{package}.generated")
    return site / package


def announce(site: Path, package: str, point: str) -> Path:
    """The metadata of an installed distribution with one entry point; returns its folder."""
    name, key = package.replace("_", "-"), package.removesuffix("_ops")
    info = site / f"{package}-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0.0\n")
    (info / "entry_points.txt").write_text(f"[hyper_parallel.op_libraries]\n{key} = {point}\n")
    return info


def rename(package: Path, op: str) -> Path:
    """Another name for the operator of a copy of the example, with the generated class."""
    generated = package / "generated"
    names = {OP: op, "AcmeGatedAdd": "".join(word.capitalize() for word in op.split("_"))}
    for path in [*generated.rglob("*.*")]:
        text = path.read_text()
        for old, new in names.items():
            text = text.replace(old, new)
        path.write_text(text)
        path.rename(path.with_name(path.name.replace(OP, op)))
    (generated / OP).rename(generated / op)
    return generated


def run_with(*path: Path, script: str, platform: str = "numpy", **environment: str | Path) -> str:
    """What a script prints that finds packages in the folders of `path`."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("HYPER_PARALLEL")}
    variables["HYPER_PARALLEL_KERNELS"] = "reference"  # unless the test says otherwise: nothing is compiled
    variables |= {"HYPER_PARALLEL_PLATFORM": platform, "PYTHONPATH": os.pathsep.join(map(str, path))}
    variables |= {name: str(value) for name, value in environment.items()}
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", script],
        env=variables,
        cwd=EXAMPLE.parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Before a script that is to run on compiled kernels.
WITHOUT_REFERENCES = """
from hyper_parallel import library
library.reference = None
"""

# Forward and gradients, plain and on a mesh of 2 x 2 ranks, against the formula on whole tensors, written out here.
ON_NUMPY = """
import autograd
import numpy as np
from hyper_parallel import DTensor, Partial, Replicate, Shard, custom_ops, distribute_tensor, get_platform
from hyper_parallel import init_device_mesh, reduce_gradient
from hyper_parallel.core.shard.ops.parallel_ops_register import get_distributed_op
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks

rng = np.random.default_rng(0)
x, branch, weight = (rng.normal(size=(4, 6, 8)) for _ in range(3))          # [B, S, D]
gate = rng.normal(size=8)                                                   # [D]
sigmoid = 1 / (1 + np.exp(-gate))
expected = x + sigmoid * branch
gradients = weight, weight * sigmoid, (weight * branch).sum(axis=(0, 1)) * sigmoid * (1 - sigmoid)

np.testing.assert_allclose(custom_ops.acme_gated_add(x, branch, gate), expected)
found = autograd.grad(lambda *tensors: (custom_ops.acme_gated_add(*tensors) * weight).sum(), (0, 1, 2))(x, branch, gate)
for value, wanted in zip(found, gradients):
    np.testing.assert_allclose(value, wanted)

ROWS, CHANNELS = (Shard(0), Shard(2)), (Replicate(), Shard(0))


def on_rank():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    placements = ROWS, ROWS, CHANNELS
    parts = [distribute_tensor(tensor, mesh, each) for tensor, each in zip((x, branch, gate), placements)]
    out = custom_ops.acme_gated_add(*parts)
    assert out.placements == ROWS, out.placements
    np.testing.assert_allclose(out.full_tensor(), expected)
    part = distribute_tensor(weight, mesh, ROWS).to_local()

    def loss(*locals):
        wrapped = (DTensor.from_local(local, mesh, each) for local, each in zip(locals, placements))
        return (custom_ops.acme_gated_add(*wrapped).to_local() * part).sum()

    local = autograd.grad(loss, (0, 1, 2))(*(tensor.to_local() for tensor in parts))
    layouts = get_distributed_op("acme_gated_add").grad_layouts(*parts)
    assert layouts["gate"].placements == (Partial("sum"), Shard(0)), layouts
    for value, layout, wanted, each in zip(local, layouts.values(), gradients, placements):
        np.testing.assert_allclose(reduce_gradient(value, layout), distribute_tensor(wanted, mesh, each).to_local())
    try:
        custom_ops.acme_gated_add(parts[0], parts[1], distribute_tensor(gate, mesh, (Shard(0), Replicate())))
    except ValueError as error:
        assert "For acme_gated_add, D" in str(error), error
    else:
        raise AssertionError("D on dp should be refused, since B lies there")
    return True


assert run_ranks(on_rank, 4) == [True] * 4
assert get_platform().custom_ops.acme_gated_add
print("right")
"""

ON_TORCH = """
import torch
from hyper_parallel import custom_ops

x, branch, weight = (torch.randn(4, 6, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
gate = torch.randn(8, dtype=torch.float64, requires_grad=True)
out = custom_ops.acme_gated_add(x, branch, gate)
expected = x + torch.sigmoid(gate) * branch
torch.testing.assert_close(out, expected)
found = torch.autograd.grad((out * weight).sum(), (x, branch, gate))
for value, wanted in zip(found, torch.autograd.grad((expected * weight).sum(), (x, branch, gate))):
    torch.testing.assert_close(value, wanted)
print("right")
"""

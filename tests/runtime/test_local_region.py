# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`local_region` on NumPy: the tables that torch and MindSpore run too, and virtual ranks."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hyper_parallel
from hyper_parallel import DTensor, Replicate, Shard, distributed, init_device_mesh, local_region
from hyper_parallel.distributed._builder.parameters import Parameters
from hyper_parallel.platform.numpy.virtual_ranks import run_ranks
from tests.operators.sharded_calls import NUMPY
from tests.regions import region_calls, region_placements
from tests.regions.region_mistakes import (
    MISTAKES,
    check_a_failure_inside_is_the_functions_own,
    check_mistake,
    check_nothing_runs_before_all_inputs_are_checked,
)
from tests.regions.region_ranks import check_all_ran, run_all

CASES = region_calls.CASES | region_placements.CASES


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_calls(case):
    case(NUMPY)


@pytest.mark.parametrize("row", MISTAKES.values(), ids=MISTAKES)
def test_mistakes(row):
    check_mistake(NUMPY, row)


def test_nothing_runs_before_all_inputs_are_checked():
    check_nothing_runs_before_all_inputs_are_checked(NUMPY)


def test_a_failure_inside_is_the_functions_own():
    check_a_failure_inside_is_the_functions_own(NUMPY)


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks(world_size):
    check_all_ran(run_ranks(run_all, world_size, NUMPY), world_size)


def test_where_it_is_imported_from():
    from hyper_parallel.distributed._builder.local_region import local_region as where_it_is_built

    assert where_it_is_built is local_region is distributed.local_region is hyper_parallel.distributed.local_region
    assert "local_region" in dir(distributed)
    assert {"local_region", "distributed"} <= set(dir(hyper_parallel))
    with pytest.raises(AttributeError, match=r"module 'hyper_parallel.distributed' has no attribute 'nothing'"):
        _ = distributed.nothing


def test_importing_the_package_loads_no_platform():
    code = (
        "import sys, hyper_parallel, hyper_parallel.distributed\n"
        "assert hyper_parallel.distributed is hyper_parallel.distributed\n"
        "assert 'hyper_parallel.platform' not in sys.modules\n"
        "assert callable(hyper_parallel.distributed.local_region)\n"
        "assert 'hyper_parallel.platform.numpy.platform' in sys.modules\n"
    )
    environment = os.environ | {"HYPER_PARALLEL_PLATFORM": "numpy"}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_mesh_made_on_another_rank_is_named():
    made = {}

    def ranks():
        mesh = init_device_mesh("cpu", (2,))
        if mesh.rank == 0:
            made["run"] = local_region(lambda x: x, device_mesh=mesh, in_placements={"x": (Shard(0),)})
        x = DTensor.from_local(np.ones(2), mesh, (Shard(0),))
        x.full_tensor()  # both ranks are here: the region has been made
        if mesh.rank == 0:
            return made["run"](x).shape
        with pytest.raises(ValueError, match="rank 1 uses a mesh that was made on rank 0"):
            made["run"](x)
        return None

    assert run_ranks(ranks, 2) == [(2,), None]


def named(x, y=0):
    return x


def test_parameters_can_be_pickled():
    """What holds a region may go to another process."""
    loaded = pickle.loads(pickle.dumps(Parameters(named)))
    args = [1, 2]
    assert list(loaded.places("y", args, {})) == [(args, 1)]


def test_the_message_in_the_guide_is_the_one_that_is_raised():
    def forward(hidden_states):
        return hidden_states

    mesh = init_device_mesh("cpu", (2, 2), init_backend=False)
    run = local_region(forward, device_mesh=mesh, in_placements={"hidden_states": (Replicate(), Replicate())})
    x = DTensor.from_local(np.ones((2, 2)), mesh, (Shard(0), Replicate()))
    with pytest.raises(ValueError, match="hidden_states should have the placements") as caught:
        run(x)
    guide = Path(__file__).resolve().parents[2] / "docs" / "modules.md"
    assert f"\nValueError: {caught.value}\n" in guide.read_text()

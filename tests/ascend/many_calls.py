# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Many calls in a process of their own: each with the host kernels' bits; what lives on after them is printed as JSON.

Run:  python -m tests.ascend.many_calls KEPT CALLS

MindSpore keeps the plans of each kernel, up to 1024 of them, and only then destroys their objects. KEPT is another
number, which a process can choose once; -1 leaves it at that.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np

POOL = 200
SAMPLES = 20
READ_EVERY = 8


class HeapState(ctypes.Structure):
    """What `mallinfo2` of the C library returns."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    ]


def heap_bytes() -> int:
    """What has been allocated by C and C++ and not been freed, over all threads."""
    count = ctypes.CDLL(None).mallinfo2
    count.restype = HeapState
    state = count()
    return int(state.uordblks + state.hblkhd)


def main() -> None:
    kept, calls = (int(argument) for argument in sys.argv[1:])
    if kept >= 0:
        ms.device_context.ascend.op_tuning.aclnn_cache(False, kept)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "mindspore"))
    from on_mindspore import MINDSPORE

    from hyper_parallel.native.flavours import MindSporeFlavour
    from hyper_parallel.native.kernels import native_kernel
    from tests.ascend.device import FakeDevice
    from tests.ascend.drawn_calls import drawn_calls, is_right

    device = FakeDevice()

    def run(kernel: str, arguments: Any) -> list[Any]:
        given = (MINDSPORE.tensor(value) if isinstance(value, np.ndarray) else value for value in arguments)
        made = native_kernel(kernel, MindSporeFlavour("Ascend"))(*given)
        return list(made) if isinstance(made, list | tuple) else [made]

    pool = drawn_calls(POOL, seed=8)
    rng = np.random.default_rng(9)
    wrong: list[str] = []
    seen = []
    for turn in range(calls):
        # All of them once, to begin with: what is kept is then at its most.
        call = pool[turn if turn < len(pool) else int(rng.integers(len(pool)))]
        outputs = run(call.kernel, call.arguments)
        # Where nobody waits, memory goes to the next calls while the device has yet to come to this one.
        is_read = turn < len(pool) or turn % READ_EVERY == 0
        if is_read and not is_right(call, [MINDSPORE.array(output) for output in outputs]):
            wrong.append(call.kernel)
        del outputs  # what is counted is what nobody holds
        if turn % (calls // SAMPLES) == 0:
            seen.append({**device.live(), "device bytes": ms.runtime.memory_allocated(), "heap bytes": heap_bytes()})
    print(
        json.dumps(
            {
                "kernels": sorted({call.kernel for call in pool}),
                "wrong": wrong,
                "faults": device.take_faults(),
                "planned": device.planned(),
                "launched": device.launched(),
                "seen": seen,
            }
        )
    )


if __name__ == "__main__":
    main()

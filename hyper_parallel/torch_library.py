# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`import hyper_parallel.torch_library` makes every operator a torch.library one: `torch.ops.hyper_parallel.<op>`.

They are for graphs: `torch.compile`, `torch.export`, meta tensors. `custom_ops.<op>` does without them.

Raises:
    RuntimeError: On a platform other than torch.
"""

from __future__ import annotations

import warnings

from hyper_parallel import library
from hyper_parallel.platform import get_platform


def define_operators() -> None:
    """Define the operators of all libraries; this module does so when it is imported."""
    if get_platform().name != "torch":
        raise RuntimeError(
            f"hyper_parallel.torch_library needs the torch platform, but this process is on {get_platform().name}; "
            "set HYPER_PARALLEL_PLATFORM=torch"
        )
    known = library.catalogue()
    for name, entry in known.operators.items():
        if name in known.clashes:
            continue  # two libraries have it: custom_ops.<op> says which
        try:
            entry.define_torch_operator()
        except ImportError as error:
            # One library's fault must not keep the others from being used.
            warnings.warn(f"There is no torch.ops.hyper_parallel.{name}: {error}", stacklevel=2)


define_operators()

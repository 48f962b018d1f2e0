# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A build by MindSpore's `CustomOpBuilder`, in a process of its own: it prints what it likes, and can be ended.

Run: python -m hyper_parallel.native.mindspore_build '{"name": ..., "sources": [...], ...}'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    wanted = json.loads(sys.argv[1])
    from mindspore.ops import CustomOpBuilder

    log = Path(wanted["build_dir"], ".build_log.txt")
    try:
        CustomOpBuilder(**wanted).build()
    except (RuntimeError, ValueError) as error:
        said = log.read_text(encoding="utf-8", errors="replace") if log.exists() else f"error: {error}"
        print(said)
        sys.exit(1)


if __name__ == "__main__":
    main()

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""CANN's public headers (`acl/`, `hccl/`), as the wheel of torch-npu on PyPI carries them: unpacked, never installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IN_WHEEL = "torch_npu/include/third_party/"
# The headers are the same for every Python and processor.
ANY_WHEEL = "--no-deps --only-binary=:all: --implementation=cp --python-version=3.11 --platform=manylinux_2_28_x86_64"


def version() -> str:
    """The version of torch-npu, from constraints.txt."""
    found = re.search(r"^torch-npu==(\S+)$", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    assert found, "constraints.txt says which torch-npu"
    return found[1]


def unpack(folder: Path) -> None:
    """Download the wheel and put its headers into the folder: `acl/inc/acl/acl.h`, `hccl/inc/hccl/hccl.h` and so on.

    Raises:
        SystemExit: If the wheel cannot be had, with what pip says.
    """
    print("downloading the public headers of CANN, 44 MB, once", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="torch-npu-") as work:
        wanted = f"torch-npu=={version()}"
        command = [sys.executable, "-m", "pip", "download", "--quiet", *ANY_WHEEL.split(), "--dest", work, wanted]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        if result.returncode:
            sys.exit(
                f"the public headers of CANN are in the wheel of {wanted}, and pip cannot have it:\n{result.stderr}"
            )
        (wheel,) = Path(work).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.filename.startswith(IN_WHEEL) and member.filename.endswith(".h"):
                    target = folder / member.filename.removeprefix(IN_WHEEL)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(member) as source, target.open("wb") as copy:
                        shutil.copyfileobj(source, copy)

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What launchers say in environment variables."""

from __future__ import annotations

import os


def number_from_environment(name: str, default: int) -> int:
    """Return the number in a variable. ValueError if it holds something else; `default` if it is empty or missing."""
    word = os.environ.get(name, "")
    if not word:
        return default
    if not word.isdecimal():
        raise ValueError(f"the environment variable {name} should be a number, but is {word!r}")
    return int(word)

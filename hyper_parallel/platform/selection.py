# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Which platform this process runs on."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import threading
from typing import NamedTuple

from hyper_parallel.platform.platform import Platform

PLATFORM_VARIABLE = "HYPER_PARALLEL_PLATFORM"


class _Candidate(NamedTuple):
    module: str
    class_name: str
    install: str


# In the order of the automatic choice.
_CANDIDATES = {
    "mindspore": _Candidate(
        "hyper_parallel.platform.mindspore",
        "MindSporePlatform",
        "pip install 'hpgen[mindspore]', on Python 3.10 to 3.12",
    ),
    "torch": _Candidate("hyper_parallel.platform.torch", "TorchPlatform", "pip install 'hpgen[torch]'"),
    "numpy": _Candidate("hyper_parallel.platform.numpy", "NumpyPlatform", "pip install numpy"),
}

_lock = threading.Lock()
_platform: Platform | None = None


def get_platform() -> Platform:
    """Return the platform of this process, chosen on the first call and kept.

    ``HYPER_PARALLEL_PLATFORM`` (numpy, torch or mindspore) decides; without it the first installed framework of
    mindspore, torch, numpy is taken. Looking whether a framework is installed does not import it.

    Raises:
        ValueError: the variable holds another word.
        ImportError: the named framework is not installed.
    """
    global _platform  # noqa: PLW0603 - the process has one platform
    if _platform is None:
        with _lock:
            if _platform is None:
                _platform = _create(_choose())
    return _platform


def _choose() -> str:
    word = os.environ.get(PLATFORM_VARIABLE, "").strip()
    if word:
        _check_named(word)
        return word
    for name in _CANDIDATES:
        if _is_installed(name):
            return name
    raise ImportError(f"none of {', '.join(_CANDIDATES)} is installed; NumPy is enough: pip install numpy")


def _check_named(word: str) -> None:
    if word not in _CANDIDATES:
        close = difflib.get_close_matches(word.lower(), _CANDIDATES, n=1, cutoff=0.5)
        suggestion = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{PLATFORM_VARIABLE} should be one of {', '.join(_CANDIDATES)}, but got {word!r}{suggestion}")
    if not _is_installed(word):
        raise ImportError(
            f"{PLATFORM_VARIABLE}={word}, but {word} is not installed; install it with: {_CANDIDATES[word].install}"
        )


def _is_installed(module: str) -> bool:
    spec = importlib.util.find_spec(module)
    # A plain folder of that name on the path is found as a namespace package, which has no origin.
    return spec is not None and spec.origin is not None


def _create(name: str) -> Platform:
    candidate = _CANDIDATES[name]
    module = importlib.import_module(f"{candidate.module}.platform")
    platform = getattr(module, candidate.class_name)()
    if not isinstance(platform, Platform):
        raise TypeError(f"{candidate.module}.{candidate.class_name} should be a Platform, but is {type(platform)}")
    return platform

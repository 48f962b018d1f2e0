# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`hpgen build`: compile the kernels ahead, so that no run has to wait for them."""

from __future__ import annotations

import shutil
import time
from importlib.util import find_spec

import click

from .folder_lock import OutputError

ALIASES = {"torch": "host", "numpy": "host"}
"""One module is for both."""


def build(platforms: tuple[str, ...], backend: str, again: bool) -> None:
    """Compile what the installed operator libraries have for each of the platforms, and say where it lies.

    Raises:
        OutputError: If kernels cannot be compiled or kept.
    """
    # The runtime is loaded here and nowhere else in the command: nothing else needs it.
    from hyper_parallel.native.errors import KernelBuildError
    from hyper_parallel.native.flavours import Flavour, HostFlavour, MindSporeFlavour
    from hyper_parallel.native.library_cache import native_library
    from hyper_parallel.native.translation_unit import units

    flavours: dict[str, Flavour] = {"host": HostFlavour(), "mindspore": MindSporeFlavour(backend)}
    try:
        found_units = units()
    except KernelBuildError as error:
        raise OutputError(str(error)) from None
    for name in dict.fromkeys(ALIASES.get(platform, platform) for platform in platforms or installed()):
        for unit in found_units:
            started = time.monotonic()
            try:
                native = native_library(unit, flavours[name])
                found = None if again else native.find()
                path = found or native.build(again)
            except KernelBuildError as error:
                raise OutputError(str(error)) from None
            took = "up to date" if found else f"compiled in {time.monotonic() - started:.0f} s"
            count = len(unit.sources)
            what = f"{count} operator{'s' if count != 1 else ''} of {unit.title}"
            click.echo(f"{name}: {what}, {took}: {path}")


def installed() -> tuple[str, ...]:
    """The platforms that there is something to compile for."""
    return ("host", *(["mindspore"] if find_spec("mindspore") else []))


def remove() -> None:
    """Remove everything that has been compiled."""
    from hyper_parallel.native.errors import KernelBuildError
    from hyper_parallel.native.library_cache import native_folder

    try:
        folder = native_folder()
    except KernelBuildError as error:
        raise OutputError(str(error)) from None
    if folder.is_dir():
        shutil.rmtree(folder)
    click.echo(f"removed: {folder}")

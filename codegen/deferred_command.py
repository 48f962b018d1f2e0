# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that stand in the list of all, but are imported only when one of them is run."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click


class DeferredCommand(click.Command):
    """A command of another module.

    Args:
        name: As it is called.
        path: `module:function`, from this package.
        short_help: Its line in the list of commands.
    """

    def __init__(self, name: str, path: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self.path = path

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        module, _, function = self.path.partition(":")
        command: click.Command = getattr(import_module(f"{__package__}.{module}"), function)
        return command.make_context(info_name, args, parent, **extra)

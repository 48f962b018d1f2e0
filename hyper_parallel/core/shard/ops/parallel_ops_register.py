# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The registry of distributed operators: which class serves which operator.

The built-in library is read first, then the libraries of installed packages, then the folders that
`HYPER_PARALLEL_OPS_YAML_DIR` names: each adds operators.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from hyper_parallel.core.shard.ops.registry_files import RegistryEntry, folder_entries, library_entries
from hyper_parallel.library import catalogue
from hyper_parallel.op_libraries import PYTHON_PATH, YAML_DIR, clash, folders_of, library_folders

if TYPE_CHECKING:
    from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp


class OperatorRegistry:
    """Operators from registry files and from Python, loaded on first use. Safe under threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entries: dict[str, RegistryEntry] | None = None
        self._clashes: dict[str, str] = {}
        self._faults: list[str] = []
        self.layout_infer_ops: dict[str, DistributedOp] = {}
        """Operators that have been instantiated, by the name they were registered under."""
        self.version: object = object()
        """Another object after every registration."""

    def register(self, op_name: str, op: DistributedOp) -> None:
        """Make `op` the rule of `op_name`; the newest registration from Python wins."""
        with self._lock:
            self.layout_infer_ops[op_name] = op
            self.version = object()

    def find(self, op_name: str) -> DistributedOp | None:
        """The operator's rule, or None if nothing is registered under the name. ValueError if two libraries have it."""
        op = self.layout_infer_ops.get(op_name)
        if op is not None:
            return op
        with self._lock:
            entry = self.entries().get(op_name)
            if op_name in self._clashes:
                raise ValueError(self._clashes[op_name])
            if entry is None:
                return None
            op = self.layout_infer_ops.get(entry.dist_op_name)
            if op is None:
                op = entry.load_class(folders_of(PYTHON_PATH))(entry.dist_op_name)
            self.layout_infer_ops[op_name] = op
            return op

    def entries(self) -> dict[str, RegistryEntry]:
        """Every operator of the registry files.

        Raises:
            ValueError: If a file that the environment names is wrong, or describes an operator that another file does.
                What is wrong with installed libraries is told when one of their operators is asked for.
        """
        with self._lock:
            if self._entries is None:
                self._clashes, self._faults = {}, []
                found: dict[str, RegistryEntry] = {}
                for entry in self._all_entries():
                    other = found.setdefault(entry.op, entry)
                    if other is not entry:
                        self._clash(other, entry)
                self._entries = found
            return self._entries

    def _all_entries(self) -> Iterator[RegistryEntry]:
        libraries = catalogue().libraries
        for library in libraries:
            try:
                yield from list(library_entries(library))
            except ValueError as error:
                if not library.is_installed:
                    raise
                self._faults.append(f"{library.title}: {error}")
        for folder in library_folders():
            yield from folder_entries(folder, libraries)

    def _clash(self, other: RegistryEntry, entry: RegistryEntry) -> None:
        if other.yaml_path.resolve() == entry.yaml_path.resolve():
            return  # one file, reached by two folders
        files, libraries = (other.yaml_path, entry.yaml_path), (other.library, entry.library)
        message = clash(f"operator {entry.op}", files, libraries)
        if entry.library is None or not entry.library.is_installed:
            raise ValueError(message)
        self._clashes.setdefault(entry.op, message)

    def unknown(self, op_name: str) -> str:
        """The message for an operator that is not registered."""
        known = {*self.entries(), *self.layout_infer_ops}
        close = get_close_matches(op_name, known, n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        message = (
            f"No distributed operator is registered under the name {op_name!r}, so it cannot run on DTensors.{meant} "
            f"Register one: generate it from a spec with 'hpgen ops', add a registry YAML through {YAML_DIR}, or "
            f"create a DistributedOp({op_name!r}) in Python. Or pass local tensors (DTensor.to_local())."
        )
        return " ".join([message, *catalogue().faults, *self._faults, *self._lacks(op_name)])

    def _lacks(self, op_name: str) -> Iterator[str]:
        """What to say of an operator that a library from outside has, but not with all of its files."""
        entry = catalogue().operators.get(op_name)
        if entry is not None and not entry.library.is_built_in and not entry.registry_file.is_file():
            yield f"{entry.library.title} lacks {entry.registry_file}, which belongs into its package data."


REGISTRY = OperatorRegistry()


def register_distributed_op(op_name: str, op: DistributedOp) -> None:
    """Register `op` as the layout rule of `op_name`."""
    REGISTRY.register(op_name, op)


def get_distributed_op(op_name: str) -> DistributedOp | None:
    """The layout rule of `op_name`, or None if there is none."""
    return REGISTRY.find(op_name)

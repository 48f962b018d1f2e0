# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The registry of distributed operators: which class serves which operator.

Registry files are YAML: operator name -> `dist_op_name`, `distributed_op_class` and `distributed_op_module` (in the
library's package) or `distributed_op_file` (beside the YAML file, or in a folder of
`HYPER_PARALLEL_OPS_PYTHON_PATH`). The built-in library is read first; `HYPER_PARALLEL_OPS_YAML_DIR` adds folders.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp

YAML_DIR = "HYPER_PARALLEL_OPS_YAML_DIR"
PYTHON_PATH = "HYPER_PARALLEL_OPS_PYTHON_PATH"
BUILT_IN = "hyper_parallel.generated"
KEYS = {"dist_op_name", "distributed_op_class", "distributed_op_file", "distributed_op_module"}


@dataclass(frozen=True)
class RegistryEntry:
    """One operator of a registry file. `package` is empty for a folder that is not an importable library."""

    op: str
    dist_op_name: str
    class_name: str
    module: str
    file: str
    yaml_path: Path
    package: str

    def load_class(self, folders: Sequence[Path]) -> type[DistributedOp]:
        """Import the operator's class. ImportError with the registry file's name if that fails."""
        module = self.load_module(folders)
        found = getattr(module, self.class_name, None)
        if found is None:
            raise ImportError(f"{self.yaml_path}: {module.__name__} has no class {self.class_name} for {self.op}.")
        return found  # type: ignore[no-any-return]

    def load_module(self, folders: Sequence[Path]) -> ModuleType:
        if self.package and self.module:
            return importlib.import_module(f"{self.package}.{self.module}")
        if self.file:
            for folder in (self.yaml_path.parent, *folders):
                path = folder / (self.file if self.file.endswith(".py") else f"{self.file}.py")
                if path.is_file():
                    return _module_from(path)
            searched = ", ".join(str(folder) for folder in (self.yaml_path.parent, *folders))
            raise ImportError(f"{self.yaml_path}: no file {self.file} for {self.op} in {searched}.")
        return importlib.import_module(self.module)


def _module_from(path: Path) -> ModuleType:
    """Import a single file under a name of its own, once."""
    name = f"hyper_parallel_ops_{abs(hash(str(path.resolve())))}_{path.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class OperatorRegistry:
    """Operators from registry files and from Python, loaded on first use. Safe under threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entries: dict[str, RegistryEntry] | None = None
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
        """The operator's rule, or None if nothing is registered under the name."""
        op = self.layout_infer_ops.get(op_name)
        if op is not None:
            return op
        with self._lock:
            entry = self.entries().get(op_name)
            if entry is None:
                return None
            op = self.layout_infer_ops.get(entry.dist_op_name)
            if op is None:
                op = entry.load_class(_folders(PYTHON_PATH))(entry.dist_op_name)
            self.layout_infer_ops[op_name] = op
            return op

    def entries(self) -> dict[str, RegistryEntry]:
        """Every operator of the registry files. ValueError if two files describe one operator."""
        with self._lock:
            if self._entries is None:
                found: dict[str, RegistryEntry] = {}
                for entry in _all_entries():
                    other = found.get(entry.op)
                    if other is not None:
                        raise ValueError(
                            f"The operator {entry.op} is registered twice: in {other.yaml_path} and in "
                            f"{entry.yaml_path}. Remove one of the entries."
                        )
                    found[entry.op] = entry
                self._entries = found
            return self._entries

    def unknown(self, op_name: str) -> str:
        """The message for an operator that is not registered."""
        known = {*self.entries(), *self.layout_infer_ops}
        close = get_close_matches(op_name, known, n=1)
        meant = f" Did you mean {close[0]}?" if close else ""
        return (
            f"No distributed operator is registered under the name {op_name!r}, so it cannot run on DTensors.{meant} "
            f"Register one: generate it from a spec with 'hpgen ops', add a registry YAML through {YAML_DIR}, or "
            f"create a DistributedOp({op_name!r}) in Python. Or pass local tensors (DTensor.to_local())."
        )


def _folders(variable: str) -> list[Path]:
    return [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]


def _all_entries() -> Iterator[RegistryEntry]:
    package = importlib.import_module(BUILT_IN)
    for folder in package.__path__:
        yield from _folder_entries(Path(folder), BUILT_IN)
    for extra in _folders(YAML_DIR):
        if not extra.is_dir():
            raise FileNotFoundError(f"{YAML_DIR} names {extra}, which is not a folder.")
        yield from _folder_entries(extra, "")


class UniqueKeyLoader(yaml.SafeLoader):
    """Refuses a key that occurs twice, where YAML's own loader keeps the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} occurs twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


def _folder_entries(folder: Path, package: str) -> Iterator[RegistryEntry]:
    # A library's own files end in _ops.yaml; a folder that the user names may hold registry files of any name.
    for path in sorted(folder.rglob("*_ops.yaml" if package else "*.yaml")):
        yield from _file_entries(path, package)


def _file_entries(path: Path, package: str) -> Iterator[RegistryEntry]:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=UniqueKeyLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"The registry file {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"The registry file {path} should map operator names to entries.")
    for op, body in content.items():
        yield _entry(str(op), body, path, package)


def _entry(op: str, body: Any, path: Path, package: str) -> RegistryEntry:
    if not isinstance(body, dict) or "distributed_op_class" not in body:
        raise ValueError(f"{path}: the entry {op} should name its distributed_op_class.")
    unknown = set(body) - KEYS
    if unknown:
        raise ValueError(f"{path}: the entry {op} has unknown keys {sorted(unknown)}; known: {sorted(KEYS)}.")
    if not body.get("distributed_op_file") and not body.get("distributed_op_module"):
        raise ValueError(f"{path}: the entry {op} should name its distributed_op_file or distributed_op_module.")
    return RegistryEntry(
        op=op,
        dist_op_name=str(body.get("dist_op_name", op)),
        class_name=str(body["distributed_op_class"]),
        module=str(body.get("distributed_op_module", "")),
        file=str(body.get("distributed_op_file", "")),
        yaml_path=path,
        package=package,
    )


REGISTRY = OperatorRegistry()


def register_distributed_op(op_name: str, op: DistributedOp) -> None:
    """Register `op` as the layout rule of `op_name`."""
    REGISTRY.register(op_name, op)


def get_distributed_op(op_name: str) -> DistributedOp | None:
    """The layout rule of `op_name`, or None if there is none."""
    return REGISTRY.find(op_name)

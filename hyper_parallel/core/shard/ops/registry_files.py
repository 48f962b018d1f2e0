# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Registry files: YAML that says which class serves which operator, and where that class is.

Operator name -> `dist_op_name`, `distributed_op_class` and `distributed_op_module` (in the library's package) or
`distributed_op_file` (beside the YAML file, or in a folder of `HYPER_PARALLEL_OPS_PYTHON_PATH`).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import yaml

from hyper_parallel.op_libraries import OperatorLibrary

if TYPE_CHECKING:
    from hyper_parallel.core.shard.ops.parallel_ops import DistributedOp

KEYS = {"dist_op_name", "distributed_op_class", "distributed_op_file", "distributed_op_module"}


@dataclass(frozen=True)
class RegistryEntry:
    """One operator of a registry file. `library` is None for a file that the user has written."""

    op: str
    dist_op_name: str
    class_name: str
    module: str
    file: str
    yaml_path: Path
    library: OperatorLibrary | None

    def load_class(self, folders: Sequence[Path]) -> type[DistributedOp]:
        """Import the operator's class. ImportError with the registry file's name if that fails."""
        module = self.load_module(folders)
        found = getattr(module, self.class_name, None)
        if found is None:
            raise ImportError(f"{self.yaml_path}: {module.__name__} has no class {self.class_name} for {self.op}.")
        return found  # type: ignore[no-any-return]

    def load_module(self, folders: Sequence[Path]) -> ModuleType:
        if self.library and self.module:
            return self.library.load(self.module)
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


def library_entries(library: OperatorLibrary) -> Iterator[RegistryEntry]:
    """What the registry files of a library say. ValueError with the file's name if one cannot be read."""
    for path in sorted(library.folder.rglob("*_ops.yaml")):
        yield from _file_entries(path, library)


def folder_entries(folder: Path, libraries: Sequence[OperatorLibrary]) -> Iterator[RegistryEntry]:
    """What the registry files say that the user has put into a folder, under any name.

    Raises:
        ValueError: With the file's name if one cannot be read. The files of the libraries in the folder are left out.
    """
    generated = {library.folder.resolve() for library in libraries}
    for path in sorted(folder.rglob("*.yaml")):
        if generated.isdisjoint(path.resolve().parents):
            yield from _file_entries(path, None)


def _file_entries(path: Path, library: OperatorLibrary | None) -> Iterator[RegistryEntry]:
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=UniqueKeyLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"The registry file {path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"The registry file {path} should map operator names to entries.")
    if isinstance(content.get("op"), str) and "args" in content:
        raise ValueError(
            f"{path} is a spec, not a registry file. Name the folder that 'hpgen ops' has written, not that of the "
            "specs."
        )
    for op, body in content.items():
        yield _entry(str(op), body, path, library)


def _entry(op: str, body: Any, path: Path, library: OperatorLibrary | None) -> RegistryEntry:
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
        library=library,
    )

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""What a case is, and a small spec to put something hostile into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ACCEPTED = ""

PARTS = {
    "op": "npu_hostile",
    "summary": "A copy.",
    "doc": "",
    "format": "layout",
    "dims": "{B: batch, D: channels}",
    "args": "{x: {dtype: float32, dims: {BD: B D, D: D}}, layout: {type: str, default: BD}}",
    "outputs": "{y: {like: x}}",
    "require": "",
    "sharding": "{shard: [B]}",
    "context_parallel": "",
    "backward": "none",
    "kernel": '{aclnn: "aclnnHostile(x, layout, y)"}',
    "reference": "m:f",
    "platforms": "",
}


def spec(**parts: str) -> str:
    """A small spec with some of its values replaced by other YAML."""
    return "".join(f"{key}: {text}\n" for key, text in (PARTS | parts).items() if text)


@dataclass(frozen=True)
class Case:
    """Files for a folder of specs, and the id of the diagnostic that they get (ACCEPTED: none)."""

    name: str
    content: str | bytes | Callable[[Path], None]
    rule: str | tuple[str, ...]
    file: str = "npu_hostile.yaml"
    arguments: str = "specs"

    def prepare(self, folder: Path) -> None:
        specs = folder / "specs"
        specs.mkdir(parents=True)
        folder.joinpath("arguments").write_text(self.arguments)
        if callable(self.content):
            self.content(specs)
        else:
            data = self.content.encode() if isinstance(self.content, str) else self.content
            specs.joinpath(self.file).write_bytes(data)


def many(count: int, text: str, joint: str = ", ") -> str:
    """The text so often, each with its number for `#`."""
    return joint.join(text.replace("#", str(number)) for number in range(count))


def yaml_quoted(text: str) -> str:
    """Any text as a YAML scalar in double quotes."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return '"' + "".join(escapes.get(char, char) for char in text) + '"'

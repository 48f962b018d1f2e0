# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""One spec in the styles that YAML has."""

from __future__ import annotations

import random
from typing import Any

import yaml

from hpgen.spec.yaml_nodes import core_value

from .words import chance, pick


class PlainDumper(yaml.SafeDumper):
    """Writes a value that occurs twice out twice: the language has no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def quoted_number(dumper: yaml.SafeDumper, found: str) -> yaml.ScalarNode:
    """A text in quotes if it would be a number, or nothing, by the YAML 1.2 core schema."""
    style = None if isinstance(core_value(found), str) else "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", found, style=style)


PlainDumper.add_representer(str, quoted_number)


def dump(draw: random.Random, spec: dict[str, Any]) -> str:
    """The same spec in one of the styles that YAML has."""
    style = pick(draw, (None, False, None, True))
    width = pick(draw, (80, 100_000))
    written = yaml.dump(
        spec, Dumper=PlainDumper, sort_keys=False, default_flow_style=style, width=width, allow_unicode=chance(draw, 2)
    )
    return written.replace("\n", "\r\n") if chance(draw, 12) else written

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Specs with mistakes in them: the real ones, mutated as text, as lines, as words, as bytes and as trees."""

from __future__ import annotations

import functools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from .styles import PlainDumper
from .valid_specs import valid_spec
from .words import BAD_NAMES, NAMES, ODD_CHARACTERS, ODD_VALUES, TEXTS, chance, pick

ROOT = Path(__file__).resolve().parents[2]
WORD = re.compile(r"[A-Za-z0-9_]+|[^\sA-Za-z0-9_]+")
KEY = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z0-9_]+)(?=:)")
VALUE = re.compile(r"(?<=: )([^\n{}\[\],]+)")


@functools.cache
def real_specs() -> tuple[str, ...]:
    """The texts of the library's specs, of the fixtures and of the golden cases."""
    places = ("specs/*.yaml", "tests/fixtures/specs/*.yaml", "tests/golden/*/specs/*.yaml")
    paths = [path for place in places for path in sorted(ROOT.glob(place))]
    return tuple(path.read_text(encoding="utf-8") for path in paths if path.stat().st_size < MOST_BYTES)


MOST_BYTES = 10_000


def broken_spec(draw: random.Random) -> bytes:
    """The bytes of a spec with one to four mistakes; some of them happen to be none."""
    text = valid_spec(draw) if chance(draw, 4) else pick(draw, real_specs())
    for _ in range(pick(draw, (1, 1, 1, 2, 4))):
        text = pick(draw, MUTATIONS)(draw, text)
    return encoded(draw, text)


def encoded(draw: random.Random, text: str) -> bytes:
    data = text.encode("utf-8", errors="surrogatepass")
    kind = draw.randrange(60)
    if kind == 0:
        return pick(draw, (b"\xef\xbb\xbf", b"\xff\xfe", b"\x00", b"\xc3")) + data
    if kind == 1:
        return text.encode(pick(draw, ("utf-16", "utf-32", "latin-1", "cp500")), errors="replace")
    if kind == 2:
        at = draw.randint(0, len(data))
        return data[:at] + bytes(draw.randrange(256) for _ in range(draw.randint(1, 4))) + data[at:]
    if kind == 3:
        return data.replace(b"\n", pick(draw, (b"\r\n", b"\r", b"\n\n", b"\xc2\x85", b"\xe2\x80\xa8")))
    return data


def place(draw: random.Random, text: str) -> int:
    return draw.randint(0, len(text))


def insert_character(draw: random.Random, text: str) -> str:
    at = place(draw, text)
    return text[:at] + pick(draw, ODD_CHARACTERS) * pick(draw, (1, 1, 1, 2, 3)) + text[at:]


def delete_characters(draw: random.Random, text: str) -> str:
    at = place(draw, text)
    return text[:at] + text[at + pick(draw, (1, 1, 1, 2, 5, 40)) :]


def replace_character(draw: random.Random, text: str) -> str:
    at = place(draw, text)
    return text[:at] + pick(draw, ODD_CHARACTERS) + text[at + 1 :]


def on_lines(change: Callable[[random.Random, list[str]], None]) -> Callable[[random.Random, str], str]:
    def mutate(draw: random.Random, text: str) -> str:
        lines = text.split("\n")
        change(draw, lines)
        return "\n".join(lines)

    return mutate


@on_lines
def delete_line(draw: random.Random, lines: list[str]) -> None:
    at = draw.randrange(len(lines))
    del lines[at : at + pick(draw, (1, 1, 2, 5))]


@on_lines
def repeat_line(draw: random.Random, lines: list[str]) -> None:
    lines.insert(draw.randrange(len(lines) + 1), pick(draw, lines))


@on_lines
def swap_lines(draw: random.Random, lines: list[str]) -> None:
    first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]


@on_lines
def indent_line(draw: random.Random, lines: list[str]) -> None:
    at = draw.randrange(len(lines))
    lines[at] = pick(draw, (" ", "  ", "\t", "- ", "# ")) + lines[at] if draw.randrange(2) else lines[at].lstrip(" ")


def swap_words(draw: random.Random, text: str) -> str:
    found = list(WORD.finditer(text))
    if len(found) < 2:
        return text
    first, second = sorted(draw.sample(range(len(found)), 2))
    one, other = found[first], found[second]
    return text[: one.start()] + other.group() + text[one.end() : other.start()] + one.group() + text[other.end() :]


def replaced(draw: random.Random, text: str, pattern: re.Pattern[str], new: str) -> str:
    found = list(pattern.finditer(text))
    if not found:
        return text
    match = pick(draw, found)
    return text[: match.start()] + new + text[match.end() :]


def replace_word(draw: random.Random, text: str) -> str:
    found = WORD.findall(text) or [""]
    return replaced(draw, text, WORD, pick(draw, (pick(draw, found), pick(draw, NAMES), pick(draw, BAD_NAMES))))


def rename_key(draw: random.Random, text: str) -> str:
    keys = KEY.findall(text) or [""]
    return replaced(draw, text, KEY, pick(draw, (pick(draw, keys), pick(draw, NAMES), pick(draw, BAD_NAMES))))


def replace_value(draw: random.Random, text: str) -> str:
    odd = pick(draw, (*ODD_VALUES, *TEXTS))
    written = (
        odd if isinstance(odd, str) and draw.randrange(2) else yaml.dump(odd, default_flow_style=True, width=10**6)
    )
    return replaced(draw, text, VALUE, written.removesuffix("\n...\n").removesuffix("\n"))


def splice(draw: random.Random, text: str) -> str:
    """The head of one spec and the tail of another."""
    other = pick(draw, real_specs())
    return text[: place(draw, text)] + other[place(draw, other) :]


def repeat_part(draw: random.Random, text: str) -> str:
    start, end = sorted((place(draw, text), place(draw, text)))
    return text[:end] + text[start : min(end, start + 200)] * pick(draw, (1, 2, 50)) + text[end:]


def change_tree(draw: random.Random, text: str) -> str:
    """Another value somewhere in the document, one entry less, or one under another key."""
    try:
        tree = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return text
    holders = [holder for holder in nodes(tree) if isinstance(holder, dict | list) and holder]
    if not holders:
        return text
    change_holder(draw, pick(draw, holders), holders)
    try:
        return yaml.dump(tree, Dumper=PlainDumper, sort_keys=False, allow_unicode=True, width=100)
    except (RecursionError, yaml.YAMLError):  # a part was put into itself
        return text


def change_holder(draw: random.Random, holder: Any, holders: list[Any]) -> None:
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key, kind = pick(draw, keys), draw.randrange(6)
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[pick(draw, (*keys, *NAMES, *BAD_NAMES))] = holder.pop(key)
    elif kind == 2:
        holder[key] = [holder[key]] if draw.randrange(2) else {"x": holder[key]}
    elif kind == 3:
        other = pick(draw, holders)
        values = list(other.values()) if isinstance(other, dict) else other
        holder[key] = pick(draw, values) if values else None
    elif kind == 4 and isinstance(holder[key], str):
        holder[key] = pick(draw, (swap_words, replace_word, insert_character, delete_characters))(draw, holder[key])
    else:
        holder[key] = pick(draw, ODD_VALUES)


def nodes(tree: Any) -> list[Any]:
    below = list(tree.values()) if isinstance(tree, dict) else tree if isinstance(tree, list) else []
    return [tree, *(node for child in below for node in nodes(child))]


MUTATIONS: tuple[Callable[[random.Random, str], str], ...] = (
    insert_character,
    delete_characters,
    replace_character,
    delete_line,
    repeat_line,
    swap_lines,
    indent_line,
    swap_words,
    swap_words,
    replace_word,
    replace_word,
    rename_key,
    replace_value,
    replace_value,
    splice,
    repeat_part,
    *(change_tree,) * 5,
)

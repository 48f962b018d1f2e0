# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Requirements drawn at random from the expression language."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Conditions:
    """Conditions and integers of the expression language, drawn at random."""

    draw: random.Random
    dims: list[str]

    def condition(self, depth: int) -> str:
        kind = self.draw.randrange(9 if depth else 4)
        if kind <= 1:
            operators = self.draw.choice((["=="], ["<="], ["!="], ["<", "<="]))
            first, *others = self.draw.sample(self.dims, min(len(operators) + 1, len(self.dims)))
            terms = zip(operators, [*others, "7"], strict=False)
            return f"{first} % 8" + "".join(f" {operator} {term} + ({self.integer(depth)})" for operator, term in terms)
        if kind == 2:
            listed = ", ".join(str(self.draw.randint(0, 10**6)) for _ in range(self.draw.randint(1, 20)))
            return f"{self.draw.choice(self.dims)} {self.draw.choice(('in', 'not in'))} [{listed}]"
        if kind == 3:
            return f"min({self.integer(depth)}, {self.draw.choice(self.dims)}) == 1"
        if kind == 4:
            return f"not ({self.condition(depth - 1)})"
        if kind == 5:
            other = f"{self.dims[0]} == {self.draw.randint(10**6, 10**9)}"
            return f"({self.condition(depth - 1)}) if ({self.condition(depth - 1)}) else ({other})"
        word = self.draw.choice((" and ", " or "))
        return word.join(f"({self.condition(depth - 1)})" for _ in range(self.draw.randint(2, 4)))

    def integer(self, depth: int) -> str:
        kind = self.draw.randrange(8 if depth > 0 else 2)
        if kind == 0:
            return str(self.draw.randint(1, 99))
        if kind <= 2:
            return self.draw.choice(self.dims)
        if kind == 3:
            return f"cdiv({self.integer(depth - 1)}, {self.draw.choice(self.dims)})"
        if kind == 4:
            return f"max({self.integer(depth - 1)}, {self.integer(depth - 1)})"
        if kind == 5:
            return f"-({self.integer(depth - 1)})"
        if kind == 6:
            return f"({self.integer(depth - 1)}) % {self.draw.randint(2, 99)}"
        operator = self.draw.choice("+-*")
        return f" {operator} ".join(f"({self.integer(depth - 1)})" for _ in range(self.draw.randint(2, 4)))

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Every diagnostic id with its title. An id is never reused for another meaning."""

from __future__ import annotations

RULES: dict[str, str] = {
    # HP0xx: the file
    "HP001": "the file cannot be read",
    "HP002": "the text is not YAML",
    "HP003": "a key occurs twice",
    "HP004": "anchors, aliases and tags are not part of the language",
    "HP005": "the file is too large or too deeply nested",
    "HP006": "a control character in the text",
    # HP02x: the shape of the document
    "HP020": "a value has the wrong type or form",
    "HP021": "unknown key",
    "HP022": "a required key is missing",
    "HP023": "a word is not one of those allowed",
    # HP1xx: names and dims
    "HP101": "a name is not usable",
    "HP102": "unknown dim",
    "HP103": "unknown name",
    "HP104": "a name is defined twice",
    "HP105": "formats do not agree",
    "HP106": "a dim of an output is bound by no input",
    "HP107": "a declared dim is never used",
    # HP2xx: arguments and expressions
    "HP201": "a default does not fit its argument",
    "HP202": "the expression is not part of the language",
    "HP203": "unknown dtype",
    "HP204": "an argument lacks what its type needs",
    # HP3xx: sharding and context parallelism
    "HP301": "the sharding rule does not fit the operator",
    "HP302": "an output must say how its shards are combined",
    "HP303": "context_parallel does not fit the operator",
    # HP4xx: the kernel and the backward
    "HP401": "the kernel call is malformed",
    "HP402": "an argument or output does not reach the kernel",
    "HP403": "the backward policy does not fit the operator",
    "HP404": "the reference is malformed",
    # HP5xx: the library
    "HP501": "two specs describe the same operator",
    "HP502": "the file is not named after its operator",
    "HP503": "there is no spec to read",
}

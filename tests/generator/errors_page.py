# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""docs/errors.md: mistakes that engineers make, each with what hpgen prints.

`python -m tests.generator.errors_page` writes the page anew from tests/errors/.
"""

from __future__ import annotations

from .spec_texts import ROOT

PAGE = ROOT / "docs" / "errors.md"
HEAD = """# Mistakes and messages

What `hpgen ops specs/` prints for mistakes that are easily made. Each message has the place (file, line, column), the line
with a mark under the word, a stable id, and what to write instead where that can be known. All mistakes of all files are
reported in one run, nothing is written, and the exit code is 1. `hpgen rules` lists the ids; `--format json` and
`--format github` print the same for programs and for annotations in a review.

The page is made from the cases in `tests/errors/` by `python -m tests.generator.errors_page`.
"""
TITLES = {
    "unknown_key": "A key misspelt",
    "unknown_type": "A word misspelt",
    "several_mistakes": "Two mistakes at once",
    "duplicate_key": "A key written twice",
    "missing_key": "A key forgotten",
    "unknown_dim": "A dim of the wrong letter",
    "dims_run_together": "Dims without spaces between them",
    "list_for_text": "Dims as a list",
    "text_for_list": "A list as text",
    "format_missing": "A format forgotten for one tensor",
    "format_unknown": "A format misspelt for one tensor",
    "output_dim_unbound": "An output's dim from another format",
    "default_of_wrong_type": "A default of the wrong type",
    "required_behind_default": "A required argument behind one with a default",
    "unknown_dtype": "A dtype by another library's name",
    "argument_without_type": "An argument without a type",
    "keyword_as_a_name": "A word of Python as a name",
    "name_twice": "An argument named like a dim",
    "single_equals": "One equals sign in a requirement",
    "expression_types": "A requirement on a tensor's values",
    "unknown_name_in_kernel": "A name misspelt in the kernel call",
    "argument_not_in_kernel": "An argument forgotten in the kernel call",
    "header_with_a_path": "A path for the name of a header",
    "unquoted_kernel_call": "A kernel call without quotes inside braces",
    "gradient_undecided": "An input whose gradient is not decided",
    "combine_missing": "An output that does not say how its shards are combined",
    "expression_dim_sharded": "A dim inside an expression marked shardable",
    "tab_in_indentation": "A tab in the indentation",
    "bracket_not_closed": "A bracket of the wrong kind",
    "colon_in_a_value": "A colon in a text",
    "file_named_otherwise": "A file with another name than its operator",
    "ending_yml": "The other file ending",
}


def page() -> str:
    parts = [HEAD]
    for case, title in TITLES.items():
        message = (ROOT / "tests" / "errors" / case / "stderr.txt").read_text()
        parts.append(f"## {title}\n\n```text\n{message.rstrip()}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""Write the page of the mutants: python -m tests.verify.mutants [--check]."""

from __future__ import annotations

import argparse
import os
import sys


def main() -> int:
    os.environ["HYPER_PARALLEL_PLATFORM"] = "numpy"
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    from tests.verify.mutants.page import PAGE, page

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is not up to date")
    given = parser.parse_args()
    text = page()
    if given.check:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

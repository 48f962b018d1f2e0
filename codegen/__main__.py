# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m hpgen` is the same command as `hpgen`."""

from .cli import main

if __name__ == "__main__":
    main()

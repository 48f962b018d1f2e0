# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""A long run: python -m tests.fuzz --examples 100000 [--seed N] [--save FOLDER]"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from .campaign import Campaign

PROGRESS_SECONDS = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--examples", type=int, default=10_000, help="how many specs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another seed gives other specs (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first example, to see one again")
    parser.add_argument("--kind", choices=("valid", "broken", "both"), default="both")
    parser.add_argument("--save", type=Path, default=Path("fuzz-findings"), help="folder for specs with findings")
    parser.add_argument("--no-tools", action="store_true", help="leave out ruff and g++")
    parser.add_argument("--layout", action="store_true", help="check with ruff and clang-format how code is laid out")
    given = parser.parse_args()
    kinds = ("valid", "broken") if given.kind == "both" else (given.kind,)
    with tempfile.TemporaryDirectory() as scratch:
        campaign = Campaign(given.seed, Path(scratch), given.save, kinds, not given.no_tools, given.layout)
        started = said = time.monotonic()
        for number in range(given.first, given.first + given.examples):
            campaign.run(number)
            if time.monotonic() - said > PROGRESS_SECONDS:
                said = time.monotonic()
                done = number + 1 - given.first
                print(
                    f"{done} of {given.examples}, {done / (said - started):.0f} a second: {summary(campaign)}",
                    flush=True,
                )
        campaign.finish_batch(compiled=True)
        print(
            f"{given.examples} examples in {time.monotonic() - started:.0f} s, seed {given.seed}: {summary(campaign)}"
        )
    print(f"diagnostics: {', '.join(f'{rule} {count}' for rule, count in sorted(campaign.rules.items()))}")
    for signature, count in campaign.findings.most_common():
        print(f"{count:>6}  {signature}")
    if campaign.findings:
        print(f"specs and messages: {given.save}/", file=sys.stderr)
    return 1 if campaign.findings else 0


def summary(campaign: Campaign) -> str:
    return ", ".join(f"{outcome} {count}" for outcome, count in sorted(campaign.outcomes.items()))


if __name__ == "__main__":
    sys.exit(main())

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""All small sequences that ranks can share, on the operators themselves: `make exhaust`. Half an hour on two processors.

Run: python -m tests.operators.exhaust [--every N] [--jobs N]
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("HYPER_PARALLEL_PLATFORM", "numpy")
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


def check_some(first: int, step: int) -> tuple[int, list[str]]:
    """Check every `step`th case from number `first` on; how many there were, and what was wrong with the first ones."""
    from tests.operators.drawn_sequences import small
    from tests.operators.sequence_calls import check_on_virtual_ranks

    count, wrong = 0, []
    for case in itertools.islice(small(), first, None, step):
        count += 1
        try:
            check_on_virtual_ranks(case)
        except Exception as error:
            wrong.append(f"{case}\n{error}")
            if len(wrong) == 10:
                break
    return count, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="All small sequences that ranks can share, on the operators.")
    parser.add_argument("--every", type=int, default=1, help="look at every Nth case only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    start, step = time.perf_counter(), options.every * options.jobs
    with ProcessPoolExecutor(options.jobs) as pool:
        firsts = [options.every * job for job in range(options.jobs)]
        found = list(pool.map(check_some, firsts, [step] * options.jobs))
    wrong = [text for _, texts in found for text in texts]
    print(f"{sum(count for count, _ in found)} cases, {len(wrong)} wrong, {time.perf_counter() - start:.0f} s")
    print("\n\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

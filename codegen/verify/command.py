# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The command `hpgen verify`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..diagnostics import SpecError

if TYPE_CHECKING:
    from .kept import KeptReports
    from .report import OperatorReport
    from .task import Outcome, Task

FINE, FINDINGS, USAGE = 0, 1, 2
LIMIT, THOROUGH_LIMIT = 600.0, 6000.0
NPROC = 2


@click.command()
@click.argument("specs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--thorough", is_flag=True, help="Many times as many cases, and all meshes: up to a minute for each operator."
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Of everything that is drawn.")
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    type=click.Choice(["text", "json", "github", "html"]),
    help="How the report is printed: for people, as JSON, as annotations, or as one page.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File for json or html.")
@click.option("--case", "case", metavar="TEXT|@FILE", help="Run one case of a report again; SPECS is its spec.")
@click.option("--rule", default="", metavar="MODULE:CLASS", help="A rule by hand, in place of the generated one.")
@click.option("--reference", default="", metavar="MODULE:FUNCTION", help="In place of the spec's reference.")
@click.option(
    "--platform",
    default="numpy",
    show_default=True,
    type=click.Choice(["numpy", "torch", "mindspore"]),
    help="What ranks run on: numpy for threads of one process, the others for processes of that framework.",
)
@click.option("--nproc", type=click.IntRange(2), help=f"How many processes of torch or mindspore.  [default: {NPROC}]")
@click.option("-v", "--verbose", is_flag=True, help="List what was covered, too.")
@click.option("-j", "--jobs", type=click.IntRange(1), help="Operators at once; one for each processor without.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    help=f"Seconds for each operator.  [default: {LIMIT:g}, with --thorough {THOROUGH_LIMIT:g}]",
)
@click.option(
    "--cache/--no-cache",
    "use_cache",
    default=True,
    show_default=True,
    help="Keep what was found in $HPGEN_CACHE_DIR or the user's cache folder.",
)
def verify(
    specs: tuple[Path, ...],
    thorough: bool,
    seed: int,
    form: str,
    output: Path | None,
    case: str | None,
    rule: str,
    reference: str,
    platform: str,
    nproc: int | None,
    verbose: bool,
    jobs: int | None,
    timeout: float | None,
    use_cache: bool,
) -> None:
    """Verify the layout rules of SPECS: a folder (all of its specs) or single files.

    Small calls are made on meshes of virtual ranks. Whatever the rule takes has to give what the reference gives on
    whole tensors, outputs and gradients, on every rank.

    Exit codes: 0 every operator is right, 1 one is wrong or cannot be verified, 2 usage or environment.
    """
    from ..library import load_library
    from ..workers import processors
    from .task import Task

    if output is not None and form not in ("json", "html"):
        raise click.UsageError("-o takes a report of --format json or html")
    text = case_text(case, form)
    nproc = ranks_of(platform, nproc, text)
    try:
        library = load_library(specs)
    except SpecError as error:
        sys.exit(show(error, form))
    tasks = [
        Task(spec, library.folder, thorough, seed, rule, reference, text, platform, nproc)
        for spec in library.specs
        if spec.op in library.selected
    ]
    if len(tasks) != 1 and (text or rule or reference):
        option = "--case" if text else "--rule" if rule else "--reference"
        raise click.UsageError(f"{option} belongs to one operator: give its spec alone")
    limit = timeout or (THOROUGH_LIMIT if thorough else LIMIT)
    if text:
        sys.exit(run_again(tasks[0], limit))
    at_once = jobs or max(1, processors() // max(1, nproc))
    sys.exit(run_all(tasks, form, output, at_once, limit, use_cache, verbose))


def case_text(case: str | None, form: str) -> str:
    """The text of --case, read and looked at."""
    from .cases import Case

    if case is None:
        return ""
    if form != "text":
        raise click.UsageError("--case prints text only")
    if case.startswith("@"):
        try:
            case = Path(case[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"--case {case}: {getattr(error, 'strerror', None) or error}") from None
    try:
        Case.from_text(case)
    except ValueError as error:
        raise click.UsageError(f"--case: {error}") from None
    return case


def ranks_of(platform: str, nproc: int | None, text: str) -> int:
    """How many processes there are to be; 0 where ranks are threads."""
    from .cases import Case
    from .ranks import PlatformError, check_platform, check_ranks
    from .task import NUMPY

    if platform == NUMPY:
        if nproc is not None:
            raise click.UsageError("--nproc belongs to --platform torch or mindspore: threads are as many as it takes")
        return 0
    ranks = Case.from_text(text).ranks if text else nproc or NPROC
    if nproc not in (None, ranks):
        raise click.UsageError(f"--nproc {nproc}: the case has {ranks} ranks")
    try:
        if not text:
            check_ranks(ranks)
        check_platform(platform)
    except PlatformError as error:
        raise click.UsageError(str(error)) from None
    return ranks


def run_again(task: Task, limit: float) -> int:
    """One case: what each rank holds against what it should."""
    from .processes import outcomes

    load_everything()
    for _, found in outcomes([task], 1, limit):
        if found is None:
            continue
        if found.kind != "done":
            click.echo(f"error: {task.shown}: {found.value}", err=True)
            return USAGE if found.kind in ("usage", "environment") else FINDINGS
        for line in found.value["lines"]:
            click.echo(line)
        return FINDINGS if found.value["wrong"] else FINE
    raise AssertionError("a task without an outcome")


def run_all(
    tasks: Sequence[Task],
    form: str,
    output: Path | None,
    jobs: int,
    limit: float,
    use_cache: bool,
    verbose: bool,
) -> int:
    """Verify, print, and give the exit code."""
    from ..cache import Cache
    from ..user_cache import default_folder
    from .kept import KeptReports
    from .printing import printed
    from .report import Report

    kept = KeptReports(Cache(default_folder() if use_cache else None))
    reports: dict[int, OperatorReport] = {}
    for number, task in enumerate(tasks):
        found = kept.find(task)
        if found is not None:
            reports[number] = found
    is_environment = False
    due = [number for number in range(len(tasks)) if number not in reports]
    if due:
        load_everything()
        kept.confirm()
    for number, outcome in watched(tasks, due, jobs, limit) if due else ():
        reports[number] = reported(tasks[number], outcome, kept)
        is_environment = is_environment or outcome.kind == "environment"
    kept.cache.prune()
    first = tasks[0]
    options: dict[str, Any] = {"thorough": first.thorough, "seed": first.seed}
    if first.nproc:
        options |= {"platform": first.platform, "nproc": first.nproc}
    report = Report(tuple(reports[at] for at in range(len(tasks))), options, verbose)
    lines = printed(report, tasks, form)
    if output is None:
        for line in lines:
            click.echo(line)
    else:
        output.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return USAGE if is_environment else FINE if report.passed else FINDINGS


def reported(task: Task, outcome: Outcome, kept: KeptReports) -> OperatorReport:
    """The report of an outcome; a complete one is kept."""
    from .report import OperatorReport

    if outcome.kind != "done":
        return OperatorReport.unverified(task.spec.op, task.shown, outcome.value)
    report = OperatorReport.from_json(outcome.value)
    kept.keep(task, report)
    return report


def watched(tasks: Sequence[Task], due: Sequence[int], jobs: int, limit: float) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of the tasks that are due, with their numbers; a terminal sees how far they are."""
    from ..progress import Progress
    from .parts import joined, parts_of
    from .processes import outcomes

    parts = [(at, part) for at in due for part in parts_of(tasks[at])]
    ended: dict[int, Outcome] = {}
    found: list[tuple[int, Outcome]] = []

    def cases() -> Iterator[None]:
        left = [runs_of(part) for _, part in parts]
        for number, outcome in outcomes([part for _, part in parts], jobs, limit):
            if outcome is not None:
                ended[number] = outcome
                at = parts[number][0]
                numbers = [one for one, (owner, _) in enumerate(parts) if owner == at]
                if all(one in ended for one in numbers):
                    found.append((at, joined([ended[one] for one in numbers])))
            steps = left[number] if outcome is not None else min(1, left[number])
            left[number] -= steps
            yield from [None] * steps or [None]

    for _ in Progress().track(cases(), "verifying, cases", sum(runs_of(part) for _, part in parts)):
        yield from found
        found.clear()
    yield from found


def runs_of(task: Task) -> int:
    from .task import budget_of

    runs: int = budget_of(task).runs * len(task.forms or task.spec.format.names)
    return runs


def load_everything() -> None:
    """Import what verifies, on NumPy: before processes are forked, so that none of them has to."""
    from .task import on_numpy

    on_numpy()
    try:
        from . import replay  # noqa: F401
    except ImportError as error:
        click.echo(f"error: operators are verified on NumPy and autograd, which cannot be imported: {error}", err=True)
        sys.exit(USAGE)


def show(error: SpecError, form: str) -> int:
    """Print what is wrong with the specs; the exit code. What programs read goes to standard output."""
    from ..report import FORMATS, report

    known = form if form in FORMATS else "text"
    for line in report(error.diagnostics, known):
        click.echo(line, err=known == "text")
    return FINDINGS

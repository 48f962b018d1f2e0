# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The command line."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import click

from . import __version__
from .deferred_command import DeferredCommand
from .diagnostics import SpecError

if TYPE_CHECKING:
    from .output import Comparison

FINE, FINDINGS, USAGE = 0, 1, 2
INTERRUPTED = 130
MOST_NAMED = 5


class Commands(click.Group):
    """A group whose commands end with the documented exit codes also where the system refuses something."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            complain(f"error: {error.filename or 'the system'}: {error.strerror or error}")
            give_up_output()
            sys.exit(USAGE)
        except MemoryError:
            complain("error: out of memory")
            sys.exit(USAGE)

    def invoke(self, ctx: click.Context) -> object:
        try:
            found: object = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return found
        except KeyboardInterrupt:
            complain("interrupted")
            sys.exit(INTERRUPTED)
        except BrokenPipeError:  # nobody reads any more
            give_up_output()
            sys.exit(USAGE)


def give_up_output() -> None:
    """Let what could not be written go: Python would try once more at the exit, and end with a code of its own."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complain(message: str) -> None:
    with suppress(OSError):
        click.echo(message, err=True)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hpgen")
def main() -> None:
    """Generate distributed operators from YAML specs.

    Exit codes: 0 fine, 1 findings (a mistake in a spec, or generated files that are not up to date), 2 usage or
    environment.

    \b
    Shell completion:
      bash   eval "$(_HPGEN_COMPLETE=bash_source hpgen)"
      zsh    eval "$(_HPGEN_COMPLETE=zsh_source hpgen)"
      fish   _HPGEN_COMPLETE=fish_source hpgen | source
    """


@main.command()
@click.argument("specs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--output", default="generated", show_default=True, type=click.Path(path_type=Path), help="Folder.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file is stale, missing or orphaned.")
@click.option("--diff", "show_diff", is_flag=True, help="Write nothing; print what would change; exit 1 if anything.")
@click.option(
    "--format",
    "form",
    default="text",
    show_default=True,
    type=click.Choice(["text", "json", "github"]),
    help="How findings are printed: for people, as JSON on standard output, or as annotations.",
)
@click.option("-j", "--jobs", type=click.IntRange(1), help="Processes; as many as there are processors without.")
@click.option(
    "--cache/--no-cache",
    "use_cache",
    default=True,
    show_default=True,
    help="Keep what was rendered in $HPGEN_CACHE_DIR or the user's cache folder.",
)
def ops(
    specs: tuple[Path, ...],
    output: Path,
    check: bool,
    show_diff: bool,
    form: str,
    jobs: int | None,
    use_cache: bool,
) -> None:
    """Regenerate the operators of SPECS: a folder (the whole library) or single files (these and the index files)."""
    # Imported here: --help and completion should not wait for the templates.
    from .cache import Cache
    from .folder_lock import OutputError, locked
    from .generate import generate
    from .journal import recover
    from .output import compare, diff, write
    from .progress import Progress
    from .spec_folder import read_folder
    from .user_cache import default_folder
    from .workers import WorkerError, processors

    try:
        library = read_folder(specs)
        if Path(os.path.realpath(output)) == library.folder:  # resolve() would not survive a link to itself
            raise OutputError(f"{output} holds the specs; give another folder for what is generated with -o")
        track = Progress().track
        cache = Cache(default_folder() if use_cache else None)
        files = generate(library, cache, track, jobs or processors())
        others = set() if library.whole else {file.path.stem for file in library.files} - library.selected
        files = {path: text for path, text in files.items() if path.parts[0] not in others}
        writing = not (check or show_diff)
        with locked(output, writing=writing):
            if writing and recover(output):
                click.echo("an earlier run was killed while it replaced files: these are restored first", err=True)
            comparison = compare(output, files, partial=not library.whole, track=track)
            missing = [op for op in sorted(others) if not (output / op / "__init__.py").is_file()]
            if missing:
                names = ", ".join(missing[:MOST_NAMED])
                names += f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
                whole = f"hpgen ops {library.shown}/ -o {output}"
                raise OutputError(
                    f"{output} lacks {names}, which the index files import; generate the library once: {whole}"
                )
            if writing:
                write(comparison, track)
        if not writing:
            for line in (*unfinished(comparison), *(diff(comparison) if show_diff else summary(comparison))):
                click.echo(line)
            if check and not comparison.clean:
                arguments = " ".join(str(path) for path in specs)
                click.echo(f"run: hpgen ops {arguments} -o {output}", err=True)
            sys.exit(FINE if comparison.clean else FINDINGS)
    except SpecError as error:
        sys.exit(show(error, form))
    except (OutputError, WorkerError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(USAGE)
    tell(len(library.selected), output, comparison)


main.add_command(DeferredCommand("verify", "verify.command:verify", "Run SPECS on virtual ranks against references."))


@main.command()
@click.argument("ids", nargs=-1)
def rules(ids: tuple[str, ...]) -> None:
    """List the diagnostic ids with their titles, or only IDS."""
    from .rules import RULES

    unknown = [name for name in ids if name.upper() not in RULES]
    if unknown:
        raise click.UsageError(f"no diagnostic is called {', '.join(unknown)}; hpgen rules lists them all")
    for name in [name.upper() for name in ids] or RULES:
        click.echo(f"{name}  {RULES[name]}")


@main.command()
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="File; standard output without.")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the file is not this schema.")
def schema(output: Path | None, check: bool) -> None:
    """Print the JSON Schema (draft-07) of a spec, for editors."""
    from .folder_lock import OutputError
    from .output import read, replace
    from .spec.schema import schema_text

    if output is None:
        if check:
            raise click.UsageError("--check needs the file to check: -o FILE")
        click.echo(schema_text(), nl=False)
        return
    try:
        current = read(output)
        if check:
            if current != schema_text().encode():
                click.echo(f"{'missing' if current is None else 'stale'}: {output}")
                click.echo(f"run: hpgen schema -o {output}", err=True)
                sys.exit(FINDINGS)
            return
        if current != schema_text().encode():
            replace(output, schema_text().encode())
    except (OutputError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(USAGE)


@main.command(name="list")
@click.argument("specs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
def list_operators(specs: tuple[Path, ...]) -> None:
    """List the operators of SPECS: formats, dims that may be sharded, backward policy, kernels."""
    from .inventory import inventory
    from .library import load_library

    try:
        library = load_library(specs)
    except SpecError as error:
        sys.exit(show(error))
    for line in inventory([spec for spec in library.specs if spec.op in library.selected]):
        click.echo(line)


@main.command(name="build")
@click.option(
    "-p",
    "--platform",
    "platforms",
    multiple=True,
    type=click.Choice(["host", "torch", "numpy", "mindspore"]),
    help="torch and numpy share one module, host; may be repeated. Everything that is installed without.",
)
@click.option(
    "--backend",
    default="CPU",
    show_default=True,
    type=click.Choice(["CPU", "Ascend"]),
    help="What MindSpore's kernels run on.",
)
@click.option("--again", is_flag=True, help="Compile also what is there already.")
@click.option("--clean", is_flag=True, help="Remove everything that has been compiled, and compile nothing.")
def build_kernels(platforms: tuple[str, ...], backend: str, again: bool, clean: bool) -> None:
    """Compile the kernels of the installed operator libraries into $HPGEN_CACHE_DIR or the user's cache folder.

    A run compiles them by itself when it needs them; this does it ahead: once, or into an image.
    """
    from .build_command import build, remove
    from .folder_lock import OutputError

    try:
        if clean:
            remove()
        else:
            build(platforms, backend, again)
    except OutputError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(USAGE)


def show(error: SpecError, form: str = "text") -> int:
    """Print every finding; the exit code. What programs read goes to standard output."""
    from .report import report

    for line in report(error.diagnostics, form):
        click.echo(line, err=form == "text")
    return FINDINGS


def unfinished(comparison: Comparison) -> list[str]:
    """One line for each run that was killed and left something behind."""
    root = comparison.root
    half = [f"interrupted: {root / path} (the next run restores the files first)" for path in comparison.interrupted]
    return half + [f"left over: {root / path} (the next run removes it)" for path in comparison.left_over]


def summary(comparison: Comparison) -> list[str]:
    """One line for each file that is not as it should be."""
    kinds: list[tuple[str, tuple[PurePosixPath, ...]]] = [
        ("stale", comparison.stale),
        ("missing", comparison.missing),
        ("orphaned", comparison.orphaned),
        ("not generated, in the way", comparison.foreign),
    ]
    return [f"{kind}: {comparison.root / path}" for kind, paths in kinds for path in paths]


def tell(operators: int, output: Path, comparison: Comparison) -> None:
    """What a run did, in one line."""
    written, removed = len(comparison.missing) + len(comparison.stale), len(comparison.orphaned)
    ops_word = f"{operators} operator{'s' if operators != 1 else ''}"
    if not written and not removed:
        click.echo(f"{ops_word}: all {len(comparison.files)} files in {output} are up to date, nothing written")
        return
    parts = [f"{written} file{'s' if written != 1 else ''} written"] if written else []
    parts += [f"{removed} removed"] if removed else []
    click.echo(f"{ops_word}: {', '.join(parts)} in {output}")
    for path in comparison.orphaned:
        click.echo(f"removed: {output / path}")

# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`hpgen schema`, `hpgen rules`, `hpgen list`, and what all commands do where the system refuses something."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hpgen.rules import RULES

from .spec_texts import ROOT, SPECS, hpgen, lse_text, write_spec


def test_schema_prints_a_draft_07_schema() -> None:
    from jsonschema import Draft7Validator

    result = hpgen("schema", cwd=ROOT)
    assert result.returncode == 0
    schema = json.loads(result.stdout)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    Draft7Validator.check_schema(schema)
    assert result.stdout == (ROOT / "codegen" / "spec" / "schema.json").read_text()


def test_schema_checks_a_copy(tmp_path: Path) -> None:
    missing = hpgen("schema", "-o", "spec.json", "--check", cwd=tmp_path)
    assert (missing.returncode, missing.stdout, missing.stderr) == (
        1,
        "missing: spec.json\n",
        "run: hpgen schema -o spec.json\n",
    )
    assert hpgen("schema", "-o", "spec.json", cwd=tmp_path).returncode == 0
    assert hpgen("schema", "-o", "spec.json", "--check", cwd=tmp_path).returncode == 0
    (tmp_path / "spec.json").write_text("{}\n")
    assert hpgen("schema", "-o", "spec.json", "--check", cwd=tmp_path).stdout == "stale: spec.json\n"
    assert hpgen("schema", "--check", cwd=tmp_path).returncode == 2


def test_every_key_of_the_schema_is_described() -> None:
    def undescribed(node: dict[str, object], path: str) -> list[str]:
        found = []
        for key, value in dict(node.get("properties", {})).items():  # type: ignore[call-overload]
            if "description" not in value and "$ref" not in value:
                found.append(f"{path}.{key}")
            found += undescribed(value, f"{path}.{key}")
        return found

    schema = json.loads((ROOT / "codegen" / "spec" / "schema.json").read_text())
    undescribed_keys = undescribed(schema, "")
    for name, definition in schema["definitions"].items():
        undescribed_keys += undescribed(definition, name)
    assert undescribed_keys == []


def test_rules_lists_every_id() -> None:
    lines = hpgen("rules", cwd=ROOT).stdout.splitlines()
    assert [line.split("  ", 1) for line in lines] == [[name, title] for name, title in RULES.items()]
    assert hpgen("rules", "hp102", cwd=ROOT).stdout == f"HP102  {RULES['HP102']}\n"
    assert hpgen("rules", "HP999", cwd=ROOT).returncode == 2


def test_every_id_in_the_code_is_a_rule_and_every_rule_is_used() -> None:
    used = set()
    for path in (ROOT / "codegen").rglob("*.py"):
        if path.name != "rules.py":
            used |= set(re.findall(r'"(HP\d{3})"', path.read_text()))
    assert used == set(RULES)


def test_list_shows_the_library(tmp_path: Path) -> None:
    write_spec(tmp_path, lse_text())
    result = hpgen("list", "specs", cwd=tmp_path)
    assert result.returncode == 0
    header, row = result.stdout.splitlines()
    assert header.split() == ["operator", "formats", "in", "out", "shardable", "backward", "kernels"]
    assert row.split() == [
        "npu_dense_lightning_indexer_softmax_lse",
        *("BSND", "TND", "9", "2", "B", "S1", "T1", "T2", "none"),
        "aclnnDenseLightningIndexerSoftmaxLse",
    ]
    write_spec(tmp_path, lse_text(("N2 == 1", "N7 == 1")))
    assert hpgen("list", "specs", cwd=tmp_path).returncode == 1


def test_findings_as_json(tmp_path: Path) -> None:
    write_spec(tmp_path, lse_text(("N2 == 1", "N7 == 1"), ("  weights:\n", "  N1:\n")))
    result = hpgen("ops", "specs", "--format", "json", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (1, "")
    errors = json.loads(result.stdout)["errors"]
    unknown = next(error for error in errors if error["rule"] == "HP103")
    text = (tmp_path / unknown["file"]).read_text().splitlines()[unknown["line"] - 1]
    assert text[unknown["column"] - 1 :][: unknown["length"]] == "N7"
    twice = next(error for error in errors if error["rule"] == "HP104")
    assert twice["notes"][0]["message"] == "first defined here"


def test_findings_as_annotations(tmp_path: Path) -> None:
    write_spec(tmp_path, lse_text(("N2 == 1", "N7 == 1")))
    result = hpgen("ops", "specs", "--format", "github", cwd=tmp_path)
    assert result.returncode == 1
    assert re.fullmatch(
        r"::error file=specs/\w+\.yaml,title=HP103,line=\d+,col=5,endColumn=7::unknown name 'N7'.*\n", result.stdout
    )


@pytest.mark.parametrize("command", [["--version"], ["rules"], ["list", SPECS], ["ops", SPECS, "--check", "-o", "x"]])
def test_output_that_cannot_be_written_is_the_environment_s_fault(tmp_path: Path, command: list[str | Path]) -> None:
    with Path("/dev/full").open("w") as full:
        result = run_hpgen(command, tmp_path, stdout=full)
    assert (result.returncode, result.stderr) == (2, "error: the system: No space left on device\n")


def test_nobody_who_reads_is_no_finding(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    result = run_hpgen(["list", SPECS], tmp_path, stdout=writing)
    os.close(writing)
    assert (result.returncode, result.stderr) == (2, "")


@pytest.mark.parametrize("stream", ["0", "1", "2"])
def test_a_closed_stream_does_not_matter(tmp_path: Path, stream: str) -> None:
    command = f"exec {sys.executable} -m hpgen ops {SPECS} -o out {stream}>&-"
    assert subprocess.run(["sh", "-c", command], cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / "out" / "build.json").is_file()


def test_a_folder_that_is_gone_is_told_plainly(tmp_path: Path) -> None:
    command = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m hpgen ops {SPECS} -o out"
    result = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr.endswith("No such file or directory\n")
    assert "Traceback" not in result.stderr


def run_hpgen(command: list[str | Path], cwd: Path, **streams: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "hpgen", *map(str, command)]
    return subprocess.run(words, cwd=cwd, stderr=subprocess.PIPE, text=True, check=False, **streams)

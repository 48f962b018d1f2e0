# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""No test here runs on references. What the other tests of MindSpore share is found beside this folder."""

import sys
from pathlib import Path

from tests.native_kernels.no_reference import forbid_references

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
forbid_references()

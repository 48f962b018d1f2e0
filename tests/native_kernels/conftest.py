# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""No test here runs on references."""

from .no_reference import forbid_references

forbid_references()

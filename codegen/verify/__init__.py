# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""`hpgen verify`: whether what a spec says of shardings is true.

The data takes one way: a spec becomes a `Subject` (its generated classes and its reference), a `Search` gives cases, an
`Executor` runs them through the dispatcher, a judge compares with the `Oracle`, and a `Verifier` makes a report of it.
"""

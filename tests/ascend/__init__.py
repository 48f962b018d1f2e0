# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The operators on MindSpore's own Ascend backend, over the fake CANN toolkit of `csrc/fake_cann` (make test-ascend)."""

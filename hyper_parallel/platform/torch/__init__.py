# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The PyTorch platform: tensors, autograd and process groups of torch."""

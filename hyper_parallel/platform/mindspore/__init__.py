# Copyright 2026 The hpgen authors
# SPDX-License-Identifier: Apache-2.0
"""The MindSpore platform: tensors and autograd of MindSpore in PyNative mode, ranks of mindspore.communication."""

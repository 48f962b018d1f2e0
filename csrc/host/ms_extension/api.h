// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Stands in for MindSpore's header of the same name, so that a generated file compiles unchanged into a module for
// NumPy arrays, which torch tensors on the host are too without a copy.
#pragma once

#include "csrc/host/array_caster.h"
#include "csrc/host/runner.h"
#include "csrc/host/tensor.h"

// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// What tests ask the fake.
#pragma once

#include <cstdint>

extern "C" {

// The faults since the last time, a line each.
const char* fake_cann_take_faults();

// How many of CANN's objects there are that have not been destroyed, by kind: "tensor", "int array", "scalar",
// "executor".
int64_t fake_cann_live(const char* kind);

// How often kernels have been planned (...GetWorkspaceSize) and launched.
int64_t fake_cann_planned();
int64_t fake_cann_launched();
}

// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Stand-in for the header of the same name: what generated operators and csrc use of it, compiled in seconds, and every
// kernel launch is written down instead of done. Generated files are compiled against it unchanged.
#pragma once

#include "launch.h"
#include "module.h"
#include "tensor.h"

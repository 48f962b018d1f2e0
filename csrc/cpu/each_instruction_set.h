// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Compiles the header HP_EACH_INSTRUCTION_SET once for each instruction set (see instruction_sets.h). To be included
// any number of times, outside of all namespaces.

#if HP_HAS_INSTRUCTION_SETS
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#define HP_VECTOR_BYTES 64
namespace hyper_parallel::cpu::avx512 {
#include HP_EACH_INSTRUCTION_SET
}
#undef HP_VECTOR_BYTES
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define HP_VECTOR_BYTES 32
namespace hyper_parallel::cpu::avx2 {
#include HP_EACH_INSTRUCTION_SET
}
#undef HP_VECTOR_BYTES
#pragma GCC pop_options
#endif

#define HP_VECTOR_BYTES 16
namespace hyper_parallel::cpu::baseline {
#include HP_EACH_INSTRUCTION_SET
}
#undef HP_VECTOR_BYTES

#undef HP_EACH_INSTRUCTION_SET

// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// One binary for several generations of x86-64. A header of vectorised code is compiled once for each instruction set,
// into a namespace of that name, and HP_FASTEST chooses at run time. Such a header has this form:
//
//   #ifndef HP_VECTOR_BYTES
//   #ifndef HP_CPU_NAME_H
//   #define HP_CPU_NAME_H
//   ... includes ...
//   #define HP_EACH_INSTRUCTION_SET "csrc/cpu/name.h"
//   #include "csrc/cpu/each_instruction_set.h"
//   #endif
//   #else
//   ... code, within namespace hyper_parallel::cpu::<instruction set>, where HP_VECTOR_BYTES is the width of a vector ...
//   #endif
//
// Attributes of single functions (target, target_clones) do not do: vectors are split into what the target has before
// an inlined function knows its caller's target. Other compilers and processors compile the code once, as they are told.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define HP_HAS_INSTRUCTION_SETS 1
#else
#define HP_HAS_INSTRUCTION_SETS 0
#endif

#define HP_ALWAYS_INLINE inline __attribute__((always_inline))

namespace hyper_parallel::cpu {

enum class InstructionSet {
  kBaseline,
  kAvx2,
  kAvx512,
};

struct NamedInstructionSet {
  const char* name;
  InstructionSet set;
};

constexpr NamedInstructionSet kInstructionSets[] = {
  {"baseline", InstructionSet::kBaseline},
  {"avx2", InstructionSet::kAvx2},
  {"avx512", InstructionSet::kAvx512},
};

namespace detail {

inline InstructionSet BestInstructionSet() {
#if HP_HAS_INSTRUCTION_SETS
  if (__builtin_cpu_supports("x86-64-v4")) {
    return InstructionSet::kAvx512;
  }
  if (__builtin_cpu_supports("x86-64-v3")) {
    return InstructionSet::kAvx2;
  }
#endif
  return InstructionSet::kBaseline;
}

inline InstructionSet InstructionSetOfEnvironment() {
  const InstructionSet best = BestInstructionSet();
  const char* text = std::getenv("HYPER_PARALLEL_CPU_INSTRUCTIONS");
  if (text == nullptr || *text == '\0') {
    return best;
  }
  const std::string name = text;
  for (const NamedInstructionSet& known : kInstructionSets) {
    if (name == known.name && known.set <= best) {
      return known.set;
    }
  }
  throw std::invalid_argument(
    "HYPER_PARALLEL_CPU_INSTRUCTIONS should be baseline, avx2 or avx512, and this processor should have it, but is '" +
    name + "'"
  );
}

}  // namespace detail

// What the kernels run on: the best that the processor has, or what HYPER_PARALLEL_CPU_INSTRUCTIONS (baseline, avx2,
// avx512) says, read once. Throws std::invalid_argument if that is unknown or the processor does not have it.
inline InstructionSet ChosenInstructionSet() {
  static const InstructionSet chosen = detail::InstructionSetOfEnvironment();
  return chosen;
}

template <typename Function>
Function* ChooseFunction(Function* baseline, Function* avx2, Function* avx512) {
  switch (ChosenInstructionSet()) {
    case InstructionSet::kAvx512:
      return avx512;
    case InstructionSet::kAvx2:
      return avx2;
    default:
      return baseline;
  }
}

}  // namespace hyper_parallel::cpu

// The function of that name from the namespace of the chosen instruction set.
#if HP_HAS_INSTRUCTION_SETS
#define HP_FASTEST(...)                           \
  (::hyper_parallel::cpu::ChooseFunction(         \
    ::hyper_parallel::cpu::baseline::__VA_ARGS__, \
    ::hyper_parallel::cpu::avx2::__VA_ARGS__,     \
    ::hyper_parallel::cpu::avx512::__VA_ARGS__    \
  ))
#else
#define HP_FASTEST(...) (&::hyper_parallel::cpu::baseline::__VA_ARGS__)
#endif

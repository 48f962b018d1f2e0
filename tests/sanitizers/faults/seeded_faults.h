// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Faults that the sanitizers have to see in a kernel: SEEDED_FAULT names the one to commit.
#ifndef HP_VECTOR_BYTES
#ifndef HP_CPU_SEEDED_FAULTS_H
#define HP_CPU_SEEDED_FAULTS_H

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "csrc/cpu/aligned_buffer.h"
#include "csrc/cpu/lanes.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

inline bool IsSeeded(const char* fault) {
  const char* seeded = std::getenv("SEEDED_FAULT");
  return seeded != nullptr && std::strcmp(seeded, fault) == 0;
}

// What the compiler does not know, and what it may not leave out.
template <typename T>
T Unknown(T value) {
  volatile T hidden = value;
  return hidden;
}

template <typename T>
void Use(const T& value) {
  [[maybe_unused]] volatile T used = value;
}

}  // namespace hyper_parallel::cpu

#define HP_EACH_INSTRUCTION_SET "csrc/cpu/seeded_faults.h"
#include "csrc/cpu/each_instruction_set.h"

namespace hyper_parallel::cpu {

inline void SeedMemoryFault(const TensorView& x, const TensorView& out) {
  float* outputs = static_cast<float*>(out.data);
  const float* inputs = static_cast<const float*>(x.data);
  if (IsSeeded("written behind an output")) {
    outputs[Unknown(out.numel())] = 1.0f;
  }
  if (IsSeeded("byte written behind an output")) {
    static_cast<char*>(out.data)[Unknown(out.numel()) * static_cast<int64_t>(sizeof(float))] = 1;
  }
  if (IsSeeded("written behind an output by a thread")) {
    ParallelFor(0, 3, 1, [&](int64_t piece, int64_t) {
      if (piece == 2) {
        outputs[out.numel()] = 1.0f;
      }
    });
  }
  if (IsSeeded("read before a row")) {
    Use(inputs[Unknown<int64_t>(-1)]);
  }
  if (IsSeeded("read behind a scratch buffer")) {
    const AlignedBuffer<double> scratch(Unknown<int64_t>(3));
    Use(scratch.data()[Unknown<int64_t>(3)]);
  }
  if (IsSeeded("buffer used after it is freed")) {
    const double* kept = nullptr;
    {
      const AlignedBuffer<double> scratch(Unknown<int64_t>(3));
      kept = Unknown(scratch.data());
    }
    Use(kept[1]);
  }
  if (IsSeeded("variable used after its scope")) {
    double* volatile kept = nullptr;
    {
      double row[4] = {1.0, 2.0, 3.0, 4.0};
      kept = row;
    }
    Use(kept[Unknown<int64_t>(1)]);
  }
  if (IsSeeded("index behind a vector")) {
    const std::vector<double> row(static_cast<size_t>(Unknown<int64_t>(3)));
    Use(row[static_cast<size_t>(Unknown<int64_t>(3))]);
  }
  if (IsSeeded("read behind a vector that has reserved more")) {
    std::vector<double> row;
    row.reserve(8);
    row.resize(3);
    Use(row.data()[Unknown<int64_t>(3)]);
  }
  if (IsSeeded("freed twice")) {
    double* scratch = new double[3];
    double* volatile again = scratch;
    delete[] scratch;
    delete[] again;
  }
  if (IsSeeded("leak")) {
    double* volatile scratch = new double[3];
    scratch[0] = 1.0;
  }
}

inline void SeedUndefined(const TensorView& x) {
  if (IsSeeded("overflow")) {
    Use(Unknown(std::numeric_limits<int64_t>::max()) + Unknown<int64_t>(1));
  }
  if (IsSeeded("shift")) {
    Use(int64_t{1} << Unknown<int64_t>(64));
  }
  if (IsSeeded("division by zero")) {
    Use(Unknown<int64_t>(3) / Unknown<int64_t>(0));
  }
  if (IsSeeded("float that fits no integer")) {
    Use(static_cast<int64_t>(Unknown(1e300)));
  }
  if (IsSeeded("misaligned load")) {
    Use(*reinterpret_cast<const float*>(Unknown(static_cast<const char*>(x.data) + 1)));
  }
  if (IsSeeded("null pointer")) {
    Use(*Unknown(static_cast<const float*>(nullptr)));
  }
}

inline void SeedVectorFault() {
  const AlignedBuffer<float> scratch(16);
  if (IsSeeded("vector behind a buffer")) {
    HP_FASTEST(LoadVector)(scratch.data() + Unknown<int64_t>(16));
  }
  if (IsSeeded("vector half behind a buffer")) {
    const AlignedBuffer<float> odd(Unknown<int64_t>(18));
    HP_FASTEST(LoadVector)(odd.data() + Unknown<int64_t>(16));
  }
  if (IsSeeded("misaligned vector")) {
    HP_FASTEST(LoadVector)(scratch.data() + Unknown<int64_t>(1));
  }
}

// Called by a kernel before it does its work.
inline void SeedFault(const TensorView& x, const TensorView& out) {
  SeedMemoryFault(x, out);
  SeedUndefined(x);
  SeedVectorFault();
}

}  // namespace hyper_parallel::cpu

#endif  // HP_CPU_SEEDED_FAULTS_H
#else

inline void LoadVector(const float* aligned) {
  const Lanes<float> values = LanesAt<float>(aligned);
  Use(values[0]);
}

#endif  // HP_VECTOR_BYTES

// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Host kernels of npu_example.cc: they only show what reached them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

inline void example_metadata(
  const std::optional<std::vector<int64_t>>& lengths,
  int64_t sequence,
  int64_t half_heads,
  const std::string& word,
  const TensorView& metadata
) {
  auto* values = static_cast<int32_t*>(metadata.data);
  values[0] = lengths.has_value() ? static_cast<int32_t>(lengths->size()) : -1;
  values[1] = static_cast<int32_t>(sequence);
  values[2] = static_cast<int32_t>(half_heads);
  values[3] = static_cast<int32_t>(word.size());
}

// out = x + rope; sums begins with everything else that was passed.
inline void example(
  const TensorView& x,
  const std::optional<TensorView>& rope,
  const std::optional<TensorView>& nothing,
  const TensorView& metadata,
  const std::vector<int64_t>& lengths,
  const std::optional<std::vector<int64_t>>& no_ints,
  const std::vector<int64_t>& literal,
  int32_t num_iters,
  double eps,
  int64_t minus_one,
  double half,
  bool out_flag,
  bool yes,
  const TensorView& out,
  const TensorView& sums,
  const std::string& layout
) {
  if (num_iters > 100) {
    throw std::invalid_argument("num_iters should be at most 100");
  }
  auto* result = static_cast<float*>(out.data);
  for (int64_t i = 0; i < x.numel(); ++i) {
    result[i] = static_cast<const float*>(x.data)[i] + (rope ? static_cast<const float*>(rope->data)[i] : 0.0f);
  }
  const auto* facts = static_cast<const int32_t*>(metadata.data);
  const double seen[] = {
    static_cast<double>(facts[0]),
    static_cast<double>(facts[1]),
    static_cast<double>(facts[2]),
    static_cast<double>(facts[3]),
    static_cast<double>(nothing.has_value()),
    static_cast<double>(lengths.size()),
    static_cast<double>(no_ints.has_value()),
    static_cast<double>(literal.at(1)),
    static_cast<double>(num_iters),
    eps,
    static_cast<double>(minus_one),
    half,
    static_cast<double>(out_flag),
    static_cast<double>(yes),
    static_cast<double>(layout.size()),
  };
  for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); ++i) {
    static_cast<float*>(sums.data)[i] = static_cast<float>(seen[i]);
  }
}

inline void example_backward(
  const TensorView& grad_out,
  const TensorView& x,
  int32_t num_iters,
  const TensorView& grad_x
) {
  for (int64_t i = 0; i < x.numel(); ++i) {
    static_cast<float*>(grad_x.data)[i] = static_cast<const float*>(grad_out.data)[i] * static_cast<float>(num_iters);
  }
}

}  // namespace hyper_parallel::cpu

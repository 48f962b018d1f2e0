// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The extents of the hyper-connections' tensors. Tokens are one dim or two; kernels see them as one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "csrc/cpu/arguments.h"
#include "csrc/cpu/tensor_view.h"
#include "csrc/cpu/token_block.h"

namespace hyper_parallel::cpu {

struct MhcExtents {
  int64_t tokens;
  int64_t streams;  // N
  int64_t width;    // C, or D

  int64_t logits() const { return streams * streams + 2 * streams; }
  int64_t all_widths() const { return streams * width; }
  int64_t blocks() const { return (tokens + kBlockTokens - 1) / kBlockTokens; }
  TokenBlock Block(int64_t index) const {
    const int64_t begin = index * kBlockTokens;
    return {begin, std::min(kBlockTokens, tokens - begin)};
  }
};

// Checks tensors against x [., N, C] and each other; "." in their dims stands for the tokens' dims. Every mistake is a
// std::invalid_argument that names the tensor.
class MhcTensors {
 public:
  explicit MhcTensors(const TensorView& x) : tokens_(x.shape.size() == 4 ? "B S" : "T") {
    if (x.shape.size() != 3 && x.shape.size() != 4) {
      throw std::invalid_argument("x should have the dims B S N C or T N C, but has shape " + ShapeText(x.shape));
    }
    Bind("x", x, ". N C");
  }

  void Bind(const std::string& name, const TensorView& view, std::string dims) {
    CheckFloating(name, view);
    const size_t dot = dims.find('.');
    extents_.Bind(name, view, dot == std::string::npos ? dims : dims.replace(dot, 1, tokens_));
  }

  MhcExtents extents() const {
    const int64_t tokens = tokens_ == "T" ? extents_["T"] : extents_["B"] * extents_["S"];
    return {tokens, extents_["N"], extents_["C"]};
  }

 private:
  std::string tokens_;
  Extents extents_;
};

}  // namespace hyper_parallel::cpu

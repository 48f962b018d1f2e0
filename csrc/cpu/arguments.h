// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// What kernels demand of their arguments. Every mistake is a std::invalid_argument that names the argument.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/documents.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

// The extents of named dims: the first tensor that has a dim says how long it is, all others have to agree.
class Extents {
 public:
  // `dims` are the tensor's dims, names or integers: "B S1 N1 128".
  void Bind(const std::string& name, const TensorView& view, const std::string& dims) {
    std::istringstream words(dims);
    std::vector<std::string> expected;
    for (std::string word; words >> word;) {
      expected.push_back(word);
    }
    const std::string but = ", but " + name + " has shape " + ShapeText(view.shape);
    if (expected.size() != view.shape.size()) {
      throw std::invalid_argument(name + " should have the " + std::to_string(expected.size()) + " dims " + dims + but);
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const bool is_number = expected[i].find_first_not_of("0123456789") == std::string::npos;
      const int64_t extent =
        is_number ? std::stoll(expected[i]) : extents_.emplace(expected[i], view.shape[i]).first->second;
      if (view.shape[i] != extent) {
        const std::string place = "dim " + std::to_string(i);
        throw std::invalid_argument(
          (is_number ? place : expected[i] + " (" + place + ")") + " of " + name + " should be " +
          std::to_string(extent) + but
        );
      }
    }
  }

  int64_t operator[](const std::string& dim) const { return extents_.at(dim); }

 private:
  std::map<std::string, int64_t> extents_;
};

inline void CheckFloating(const std::string& name, const TensorView& view) {
  if (view.dtype == DType::kBool || view.dtype == DType::kInt32 || view.dtype == DType::kInt64) {
    throw std::invalid_argument(name + " should be floating-point, but is " + DTypeName(view.dtype));
  }
}

inline void CheckDType(const std::string& name, const TensorView& view, DType dtype) {
  if (view.dtype != dtype) {
    throw std::invalid_argument(name + " should be " + DTypeName(dtype) + ", but is " + DTypeName(view.dtype));
  }
}

inline void CheckCausalMask(int64_t sparse_mode, int64_t pre_tokens, int64_t next_tokens) {
  constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  if (sparse_mode != 3) {
    throw std::invalid_argument("sparse_mode should be 3, but is " + std::to_string(sparse_mode));
  }
  if (pre_tokens != kUnlimited || next_tokens != kUnlimited) {
    throw std::invalid_argument(
      "pre_tokens and next_tokens should be INT64_MAX, but are " + std::to_string(pre_tokens) + " and " +
      std::to_string(next_tokens)
    );
  }
}

// Whether tokens are packed. Only BSND and TND are known.
inline bool IsPacked(const std::string& layout) {
  if (layout != "BSND" && layout != "TND") {
    throw std::invalid_argument("layout should be BSND or TND, but is " + layout);
  }
  return layout == "TND";
}

// The documents of query [B, S1, ..] or [T1, ..] and key [B, S2, ..] or [T2, ..].
inline std::vector<Document> DocumentsOf(
  const TensorView& query,
  const TensorView& key,
  const std::vector<int64_t>& query_ends,
  const std::vector<int64_t>& key_ends,
  const std::string& layout
) {
  if (IsPacked(layout)) {
    return PackedDocuments(query_ends, key_ends, query.dim(0), key.dim(0));
  }
  if (!query_ends.empty() || !key_ends.empty()) {
    throw std::invalid_argument("actual_seq_qlen and actual_seq_klen belong to layout TND, but layout is BSND");
  }
  return BatchDocuments(query.dim(0), query.dim(1), key.dim(1));
}

}  // namespace hyper_parallel::cpu

// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Some neighbouring tokens, turned so that the same entry of each lies side by side: [entries][tokens]. Mathematics of
// single numbers per token is then vectorised over the tokens. It is done in double: it is little beside what is done
// with the streams, and its rounding disappears in that of the results.
#pragma once

#include <cstdint>
#include <vector>

#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

constexpr int64_t kBlockTokens = 32;

struct TokenBlock {
  int64_t begin;
  int64_t count;
};

// A block's values, [entries][tokens].
class BlockValues {
 public:
  BlockValues(int64_t entries, const TokenBlock& block)
      : tokens_(block.count), values_(static_cast<size_t>(entries * block.count), 0.0) {}

  double* operator[](int64_t entry) { return values_.data() + entry * tokens_; }
  const double* operator[](int64_t entry) const { return values_.data() + entry * tokens_; }
  int64_t entries() const { return tokens_ == 0 ? 0 : static_cast<int64_t>(values_.size()) / tokens_; }
  int64_t tokens() const { return tokens_; }

 private:
  int64_t tokens_;
  std::vector<double> values_;
};

// From a tensor [tokens, entries] that begins at `offset` of the view.
inline void LoadBlock(const TensorView& view, int64_t offset, const TokenBlock& block, BlockValues* values) {
  const int64_t entries = values->entries();
  std::vector<double> rows(static_cast<size_t>(entries * block.count));
  LoadElements(view, offset + block.begin * entries, entries * block.count, rows.data());
  for (int64_t entry = 0; entry < entries; ++entry) {
    for (int64_t token = 0; token < block.count; ++token) {
      (*values)[entry][token] = rows[static_cast<size_t>(token * entries + entry)];
    }
  }
}

inline BlockValues LoadBlock(const TensorView& view, int64_t entries, const TokenBlock& block) {
  BlockValues values(entries, block);
  LoadBlock(view, 0, block, &values);
  return values;
}

// To a tensor [tokens, count] that begins at `offset` of the view: the `count` entries from `first` on.
inline void StoreBlock(
  const BlockValues& values,
  int64_t first,
  int64_t count,
  const TokenBlock& block,
  int64_t offset,
  const TensorView& view
) {
  std::vector<double> rows(static_cast<size_t>(count * block.count));
  for (int64_t entry = 0; entry < count; ++entry) {
    for (int64_t token = 0; token < block.count; ++token) {
      rows[static_cast<size_t>(token * count + entry)] = values[first + entry][token];
    }
  }
  StoreElements(rows.data(), offset + block.begin * count, count * block.count, view);
}

}  // namespace hyper_parallel::cpu

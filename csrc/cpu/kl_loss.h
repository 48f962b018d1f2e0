// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// What the dense and the sparse loss have in common: their tensors, the sum over rows that makes the gradient of the
// keys, and how documents are dealt to threads.
//
//   p = mean over heads of softmax(query . key * scale), rebuilt from its statistics;  s = softmax(res);
//   loss = sum over rows of sum_j p (log p - log s), both clipped at 1e-8 before the logarithm;  d_res = s - p.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/aligned_buffer.h"
#include "csrc/cpu/arguments.h"
#include "csrc/cpu/documents.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

constexpr double kSmallestProbability = 1e-8;

struct KlLossTensors {
  TensorView query;
  TensorView key;
  TensorView query_index;
  TensorView key_index;
  TensorView weights;
  TensorView softmax_max;
  TensorView softmax_sum;
  std::optional<TensorView> query_rope;
  std::optional<TensorView> key_rope;
  double scale;
  TensorView d_query_index;
  TensorView d_key_index;
  TensorView d_weights;
  bool packed;

  int64_t heads() const { return query.dim(-2); }
  int64_t key_heads() const { return key.dim(-2); }
  int64_t group() const { return heads() / key_heads(); }
  int64_t head_size() const { return query.dim(-1); }
  int64_t rope_size() const { return query_rope.has_value() ? query_rope->dim(-1) : 0; }
  int64_t index_heads() const { return query_index.dim(-2); }
  int64_t index_size() const { return query_index.dim(-1); }

  // Where softmax_max [B, N2, S1, G] or [N2, T1, G] has a row of a document: query head n.
  int64_t StatisticsPlace(const Document& document, int64_t row, int64_t n) const {
    const int64_t key_head = n / group();
    const int64_t tokens = softmax_max.dim(-2);
    const int64_t start = packed ? key_head * tokens + document.query_begin
                                 : document.query_begin * key_heads() + key_head * tokens;
    return (start + row) * group() + n % group();
  }
};

// Binds what both operators have and checks it; the caller binds what is its own.
inline Extents CheckKlLoss(const KlLossTensors& tensors, const TensorView& loss) {
  Extents extents;
  const std::string rows = tensors.packed ? "T1 " : "B S1 ";
  const std::string keys = tensors.packed ? "T2 " : "B S2 ";
  const std::string statistics = tensors.packed ? "N2 T1 G" : "B N2 S1 G";
  const auto bind = [&extents](const std::string& name, const TensorView& view, const std::string& dims) {
    CheckFloating(name, view);
    extents.Bind(name, view, dims);
  };
  bind("query", tensors.query, rows + "N1 D");
  bind("key", tensors.key, keys + "N2 D");
  bind("query_index", tensors.query_index, rows + "N1i Di");
  bind("key_index", tensors.key_index, keys + "1 Di");
  bind("weights", tensors.weights, rows + "N1i");
  if (extents["N2"] == 0 || extents["N1"] % extents["N2"] != 0) {
    throw std::invalid_argument(
      "N1 (heads of query) should be a multiple of N2 (heads of key), but is " + std::to_string(extents["N1"]) +
      " and N2 is " + std::to_string(extents["N2"])
    );
  }
  bind("softmax_max", tensors.softmax_max, statistics);
  bind("softmax_sum", tensors.softmax_sum, statistics);
  if (extents["G"] != extents["N1"] / extents["N2"]) {
    throw std::invalid_argument(
      "G (last dim) of softmax_max should be N1 / N2 = " + std::to_string(extents["N1"] / extents["N2"]) +
      ", but is " + std::to_string(extents["G"])
    );
  }
  if (tensors.query_rope.has_value() != tensors.key_rope.has_value()) {
    throw std::invalid_argument("query_rope and key_rope go together, but only one of them is given");
  }
  if (tensors.query_rope.has_value()) {
    bind("query_rope", *tensors.query_rope, rows + "N1 R");
    bind("key_rope", *tensors.key_rope, keys + "N2 R");
  }
  bind("d_query_index", tensors.d_query_index, rows + "N1i Di");
  bind("d_key_index", tensors.d_key_index, keys + "1 Di");
  bind("d_weights", tensors.d_weights, rows + "N1i");
  CheckDType("loss", loss, DType::kFloat32);
  extents.Bind("loss", loss, "1");
  return extents;
}

// The gradient of a document's keys is a sum over all of its rows. They are dealt to a fixed number of slices, each with
// a total of its own, and the totals are added in order: whatever the number of threads, the sum is the same. Totals are
// in double, since each has as many terms as there are rows and heads.
constexpr int64_t kSlices = 8;

// The columns of a gradient's total are rounded up to full vectors.
inline int64_t PaddedSize(int64_t size) {
  return (size + 15) / 16 * 16;
}

// Calls run_block(first_row, rows, d_key) for each block of `block_rows` rows of a document; it returns the block's part
// of the loss and adds to d_key [key_length rounded up by kSlices][PaddedSize]. Writes d_key_index and returns the loss.
template <typename RunBlock>
double KlLossOfDocument(
  const KlLossTensors& tensors,
  const Document& document,
  int64_t block_rows,
  const RunBlock& run_block
) {
  const int64_t size = tensors.index_size();
  const int64_t stride = PaddedSize(size);
  const int64_t blocks = (document.query_length + block_rows - 1) / block_rows;
  const int64_t slices = std::clamp<int64_t>(blocks, 1, kSlices);
  std::vector<AlignedBuffer<double>> totals;
  for (int64_t slice = 0; slice < slices; ++slice) {
    totals.emplace_back(PaddedSize(document.key_length) * stride);
  }
  std::vector<double> losses(static_cast<size_t>(blocks), 0.0);
  // Dealt out like cards, because later rows see more keys.
  ParallelFor(0, slices, 1, [&](int64_t slice, int64_t) {
    for (int64_t block = slice; block < blocks; block += slices) {
      const int64_t first = block * block_rows;
      const int64_t rows = std::min(block_rows, document.query_length - first);
      losses[static_cast<size_t>(block)] = run_block(first, rows, totals[static_cast<size_t>(slice)].data());
    }
  });
  for (int64_t j = 0; j < document.key_length; ++j) {
    double* sum = totals[0].data() + j * stride;
    for (size_t slice = 1; slice < totals.size(); ++slice) {
      const double* part = totals[slice].data() + j * stride;
      for (int64_t d = 0; d < size; ++d) {
        sum[d] += part[d];
      }
    }
    StoreElements(sum, (document.key_begin + j) * size, size, tensors.d_key_index);
  }
  double loss = 0;
  for (const double part : losses) {
    loss += part;
  }
  return loss;
}

// Adds up run(document), a document's loss, in order.
template <typename Run>
void SumOverDocuments(const std::vector<Document>& documents, const TensorView& loss, const Run& run) {
  std::vector<double> losses(documents.size(), 0.0);
  ForEachDocument(documents, [&](const Document& document) {
    losses[static_cast<size_t>(&document - documents.data())] = run(document);
  });
  double total = 0;
  for (const double part : losses) {
    total += part;
  }
  *static_cast<float*>(loss.data) = static_cast<float>(total);
}

}  // namespace hyper_parallel::cpu

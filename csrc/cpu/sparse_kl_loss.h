// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The sparse loss of a block of rows and its gradients. Every row has keys of its own: they are gathered, and lie in the
// lanes of vectors.
#ifndef HP_VECTOR_BYTES
#ifndef HP_CPU_SPARSE_KL_LOSS_H
#define HP_CPU_SPARSE_KL_LOSS_H

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/aligned_buffer.h"
#include "csrc/cpu/documents.h"
#include "csrc/cpu/exponential.h"
#include "csrc/cpu/indexer_scores.h"
#include "csrc/cpu/kl_loss.h"

namespace hyper_parallel::cpu {

struct SparseKlLossTensors : KlLossTensors {
  TensorView sparse_indices;
};

// The keys that a row selects. `last_row` [key_length] holds for each key the last row that has selected it.
inline std::vector<int64_t> SelectedKeys(
  const SparseKlLossTensors& tensors,
  const Document& document,
  int64_t row,
  std::vector<int64_t>* last_row
) {
  const int64_t places = tensors.sparse_indices.dim(-1);
  const auto* indices =
    static_cast<const int32_t*>(tensors.sparse_indices.data) + (document.query_begin + row) * places;
  const auto fail = [&](int64_t position, const std::string& problem) {
    throw std::invalid_argument(
      "sparse_indices should hold -1 or positions of keys that the row sees, each once, but row " +
      std::to_string(row) + " of a document with " + std::to_string(document.query_length) + " query and " +
      std::to_string(document.key_length) + " key rows holds " + std::to_string(position) + problem
    );
  };
  std::vector<int64_t> selected;
  for (int64_t i = 0; i < places; ++i) {
    const int64_t position = indices[i];
    if (position == -1) {
      continue;
    }
    if (position < 0 || position >= document.VisibleKeys(row)) {
      fail(position, "");
    }
    int64_t& last = (*last_row)[static_cast<size_t>(position)];
    if (last == row) {
      fail(position, " twice");
    }
    last = row;
    selected.push_back(position);
  }
  return selected;
}

}  // namespace hyper_parallel::cpu

#define HP_EACH_INSTRUCTION_SET "csrc/cpu/sparse_kl_loss.h"
#include "csrc/cpu/each_instruction_set.h"

#endif  // HP_CPU_SPARSE_KL_LOSS_H
#else

// dots[r] = query . keys[r] for kTileRows keys; both have `stride` columns, full vectors, the last of them zeros.
template <typename Real>
void DotProducts(const Real* query, const Real* keys, int64_t stride, Real* dots) {
  constexpr int64_t kWidth = kLanes<Real>;
  Lanes<Real> sums[kTileRows] = {};
  for (int64_t d = 0; d < stride; d += kWidth) {
    const Lanes<Real> values = LanesAt<Real>(query + d);
    for (int64_t r = 0; r < kTileRows; ++r) {
      sums[r] += values * LanesAt<Real>(keys + r * stride + d);
    }
  }
  for (int64_t r = 0; r < kTileRows; ++r) {
    alignas(HP_VECTOR_BYTES) Real parts[kWidth];
    LanesAt<Real>(parts) = sums[r];
    for (int64_t half = kWidth / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) {
        parts[lane] += parts[lane + half];
      }
    }
    dots[r] = parts[0];
  }
}

template <typename Real>
class SparseKlLossRow {
 public:
  SparseKlLossRow(const SparseKlLossTensors& tensors, const Document& document)
      : tensors_(tensors),
        document_(document),
        size_(tensors.head_size()),
        stride_(PaddedSize(tensors.head_size() + tensors.rope_size())),
        index_heads_(tensors.index_heads()),
        index_size_(tensors.index_size()),
        index_stride_(PaddedSize(tensors.index_size())),
        places_((tensors.sparse_indices.dim(-1) + kChunkKeys - 1) / kChunkKeys * kChunkKeys),
        last_row_(static_cast<size_t>(document.key_length), -1),
        query_(tensors.heads() * stride_),
        keys_(kChunkKeys * stride_),
        attention_(places_),
        index_query_(PaddedSize(index_heads_) * index_stride_),
        index_keys_(places_ * index_stride_),
        weights_(index_heads_),
        scores_(places_),
        products_(PaddedSize(index_heads_) * places_),
        d_query_(PaddedSize(index_heads_) * index_stride_),
        d_weights_(index_heads_) {}

  // Writes the row's d_query_index and d_weights, adds to d_key [.][PaddedSize], returns the row's loss.
  double Run(int64_t row, double* d_key) {
    row_ = row;
    selected_ = SelectedKeys(tensors_, document_, row, &last_row_);
    count_ = static_cast<int64_t>(selected_.size());
    padded_ = (count_ + kChunkKeys - 1) / kChunkKeys * kChunkKeys;
    d_query_.Clear();
    d_weights_.Clear();
    double loss = 0;
    if (count_ > 0) {
      LoadRow();
      ScoreKeys();
      RebuildAttention();
      loss = ScoresToGradients();
      ProductsToGradients();
      AddQueryGradient();
      AddKeyGradient(d_key);
    }
    Store();
    return loss;
  }

 private:
  static constexpr int64_t kWidth = kLanes<Real>;

  int64_t packed_row() const { return document_.query_begin + row_; }

  void LoadRow() {
    const int64_t heads = tensors_.heads();
    const int64_t rope_size = tensors_.rope_size();
    for (int64_t n = 0; n < heads; ++n) {
      const int64_t head = packed_row() * heads + n;
      LoadElements(tensors_.query, head * size_, size_, query_.data() + n * stride_);
      if (tensors_.query_rope.has_value()) {
        LoadElements(*tensors_.query_rope, head * rope_size, rope_size, query_.data() + n * stride_ + size_);
      }
    }
    for (int64_t n = 0; n < index_heads_; ++n) {
      const int64_t head = packed_row() * index_heads_ + n;
      LoadElements(tensors_.query_index, head * index_size_, index_size_, index_query_.data() + n * index_stride_);
    }
    LoadElements(tensors_.weights, packed_row() * index_heads_, index_heads_, weights_.data());
  }

  // The row's index keys, products_ = relu(query . key) and scores_. Places without a key get zeros.
  void ScoreKeys() {
    std::fill(index_keys_.data() + count_ * index_stride_, index_keys_.data() + padded_ * index_stride_, Real(0));
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t key = document_.key_begin + selected_[static_cast<size_t>(i)];
      LoadElements(tensors_.key_index, key * index_size_, index_size_, index_keys_.data() + i * index_stride_);
    }
    std::fill(scores_.data(), scores_.data() + padded_, Real(0));
    for (int64_t n = 0; n < index_heads_; ++n) {
      const Real* query = index_query_.data() + n * index_stride_;
      Real* products = products_.data() + n * places_;
      for (int64_t i = 0; i < padded_; i += kTileRows) {
        DotProducts<Real>(query, index_keys_.data() + i * index_stride_, index_stride_, products + i);
      }
      for (int64_t i = 0; i < padded_; i += kWidth) {
        Relu<Real>(LanesAt<Real>(products + i));
        LanesAt<Real>(scores_.data() + i) += weights_.data()[n] * LanesAt<Real>(products + i);
      }
    }
  }

  // attention_ becomes the sum of the heads' softmaxes.
  void RebuildAttention() {
    std::fill(attention_.data(), attention_.data() + padded_, Real(0));
    for (int64_t i = 0; i < count_; i += kChunkKeys) {
      for (int64_t h = 0; h < tensors_.key_heads(); ++h) {
        GatherKeys(i, h);
        for (int64_t n = h * tensors_.group(); n < (h + 1) * tensors_.group(); ++n) {
          AddHead(i, n);
        }
      }
    }
  }

  void GatherKeys(int64_t first, int64_t h) {
    const int64_t rope_size = tensors_.rope_size();
    keys_.Clear();
    for (int64_t i = first; i < std::min(first + kChunkKeys, count_); ++i) {
      const int64_t key = (document_.key_begin + selected_[static_cast<size_t>(i)]) * tensors_.key_heads() + h;
      Real* target = keys_.data() + (i - first) * stride_;
      LoadElements(tensors_.key, key * size_, size_, target);
      if (tensors_.key_rope.has_value()) {
        LoadElements(*tensors_.key_rope, key * rope_size, rope_size, target + size_);
      }
    }
  }

  void AddHead(int64_t first, int64_t n) {
    Real max;
    Real sum;
    const int64_t place = tensors_.StatisticsPlace(document_, row_, n);
    LoadElements(tensors_.softmax_max, place, 1, &max);
    LoadElements(tensors_.softmax_sum, place, 1, &sum);
    if (!(sum > Real(0))) {
      return;  // without a sum a row has no probabilities
    }
    const auto scale = static_cast<Real>(tensors_.scale);
    alignas(HP_VECTOR_BYTES) Real dots[kChunkKeys];
    for (int64_t i = 0; i < kChunkKeys; i += kTileRows) {
      DotProducts<Real>(query_.data() + n * stride_, keys_.data() + i * stride_, stride_, dots + i);
    }
    for (int64_t i = 0; i < kChunkKeys; i += kWidth) {
      Lanes<Real> part = LanesAt<Real>(dots + i) * scale - max;
      Exp(part);
      LanesAt<Real>(attention_.data() + first + i) += part * (Real(1) / sum);
    }
  }

  // scores_ becomes d_res = s - p, 0 in places without a key. Returns the loss.
  double ScoresToGradients() {
    const auto mean = static_cast<Real>(1.0 / static_cast<double>(tensors_.heads()));
    const auto smallest = static_cast<Real>(kSmallestProbability);
    Real* scores = scores_.data();
    Real max = -std::numeric_limits<Real>::infinity();
    for (int64_t i = 0; i < count_; ++i) {
      max = scores[i] > max || std::isnan(scores[i]) ? scores[i] : max;
    }
    std::fill(scores + count_, scores + padded_, -std::numeric_limits<Real>::infinity());
    std::fill(attention_.data() + count_, attention_.data() + padded_, Real(0));
    double sums[kWidth] = {};
    for (int64_t i = 0; i < padded_; i += kWidth) {
      Lanes<Real> s = LanesAt<Real>(scores + i) - max;
      Exp(s);
      LanesAt<Real>(scores + i) = s;
      AddTo<Real>(sums, s);
    }
    const auto factor = static_cast<Real>(1.0 / std::accumulate(sums, sums + kWidth, 0.0));
    double losses[kWidth] = {};
    for (int64_t i = 0; i < padded_; i += kWidth) {
      const Lanes<Real> p = LanesAt<Real>(attention_.data() + i) * mean;
      const Lanes<Real> s = LanesAt<Real>(scores + i) * factor;
      Lanes<Real> log_p = p < smallest ? Lanes<Real>{} + smallest : p;
      Lanes<Real> log_s = s < smallest ? Lanes<Real>{} + smallest : s;
      Log(log_p);
      Log(log_s);
      AddTo<Real>(losses, p * (log_p - log_s));
      LanesAt<Real>(scores + i) = s - p;
    }
    std::fill(scores + count_, scores + padded_, Real(0));
    return std::accumulate(losses, losses + kWidth, 0.0);
  }

  // d_weights is added up; products_ becomes the gradient of query . key.
  void ProductsToGradients() {
    for (int64_t n = 0; n < index_heads_; ++n) {
      double d_weight[kWidth] = {};
      const Real weight = weights_.data()[n];
      for (int64_t i = 0; i < padded_; i += kWidth) {
        const Lanes<Real> zero = {};
        const Lanes<Real> d_score = LanesAt<Real>(scores_.data() + i);
        Lanes<Real>& product = LanesAt<Real>(products_.data() + n * places_ + i);
        AddTo<Real>(d_weight, d_score * product);
        product = d_score * weight * (product > zero ? zero + Real(1) : zero);
      }
      d_weights_.data()[n] = std::accumulate(d_weight, d_weight + kWidth, 0.0);
    }
  }

  void AddQueryGradient() {
    for (int64_t n = 0; n < index_heads_; n += kTileRows) {
      for (int64_t d = 0; d < index_size_; d += kWidth) {
        for (int64_t i = 0; i < padded_; i += kChunkKeys) {
          Lanes<Real> tile[kTileRows];
          const Real* keys = index_keys_.data() + i * index_stride_ + d;
          TileProduct<Real>(products_.data() + n * places_ + i, places_, 1, keys, index_stride_, kChunkKeys, tile);
          for (int64_t r = 0; r < kTileRows; ++r) {
            AddTo<Real>(d_query_.data() + (n + r) * index_stride_ + d, tile[r]);
          }
        }
      }
    }
  }

  void AddKeyGradient(double* d_key) {
    for (int64_t i = 0; i < count_; i += kTileRows) {
      const int64_t keys = std::min(kTileRows, count_ - i);
      for (int64_t d = 0; d < index_size_; d += kWidth) {
        Lanes<Real> tile[kTileRows];
        const Real* query = index_query_.data() + d;
        TileProduct<Real>(products_.data() + i, 1, places_, query, index_stride_, index_heads_, tile);
        for (int64_t r = 0; r < keys; ++r) {
          AddTo<Real>(d_key + selected_[static_cast<size_t>(i + r)] * index_stride_ + d, tile[r]);
        }
      }
    }
  }

  void Store() const {
    for (int64_t n = 0; n < index_heads_; ++n) {
      const int64_t head = packed_row() * index_heads_ + n;
      const double* d_query = d_query_.data() + n * index_stride_;
      StoreElements(d_query, head * index_size_, index_size_, tensors_.d_query_index);
    }
    StoreElements(d_weights_.data(), packed_row() * index_heads_, index_heads_, tensors_.d_weights);
  }

  const SparseKlLossTensors& tensors_;
  const Document& document_;
  const int64_t size_;    // of a head of the main attention
  const int64_t stride_;  // its rope part joined on
  const int64_t index_heads_;
  const int64_t index_size_;
  const int64_t index_stride_;
  const int64_t places_;  // for selected keys, whole chunks
  std::vector<int64_t> last_row_;
  std::vector<int64_t> selected_;
  int64_t row_ = 0;
  int64_t count_ = 0;                // of selected keys
  int64_t padded_ = 0;               // the same in whole chunks
  AlignedBuffer<Real> query_;        // [heads][stride]
  AlignedBuffer<Real> keys_;         // [kChunkKeys][stride], of one head
  AlignedBuffer<Real> attention_;    // [places]
  AlignedBuffer<Real> index_query_;  // [index_heads, whole tiles][index_stride]
  AlignedBuffer<Real> index_keys_;   // [places][index_stride]
  AlignedBuffer<Real> weights_;      // [index_heads]
  AlignedBuffer<Real> scores_;       // [places]
  AlignedBuffer<Real> products_;     // [index_heads, whole tiles][places]
  AlignedBuffer<double> d_query_;    // [index_heads, whole tiles][index_stride]
  AlignedBuffer<double> d_weights_;  // [index_heads]
};

// The loss of a document; its gradients are written.
template <typename Real>
double SparseKlLossOfDocument(const SparseKlLossTensors& tensors, const Document& document) {
  constexpr int64_t kBlockRows = 16;
  const auto run_block = [&](int64_t first_row, int64_t rows, double* d_key) {
    SparseKlLossRow<Real> row(tensors, document);
    double loss = 0;
    for (int64_t i = first_row; i < first_row + rows; ++i) {
      loss += row.Run(i, d_key);
    }
    return loss;
  };
  return KlLossOfDocument(tensors, document, kBlockRows, run_block);
}

#endif  // HP_VECTOR_BYTES

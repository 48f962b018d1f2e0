// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The dense loss of a block of rows and its gradients, chunk of keys by chunk of keys: both softmaxes are rebuilt from
// their statistics, so that neither scores nor probabilities of a row are ever there at once. Rows lie in lanes.
#ifndef HP_VECTOR_BYTES
#ifndef HP_CPU_DENSE_KL_LOSS_H
#define HP_CPU_DENSE_KL_LOSS_H

#include <algorithm>
#include <cstdint>

#include "csrc/cpu/aligned_buffer.h"
#include "csrc/cpu/documents.h"
#include "csrc/cpu/exponential.h"
#include "csrc/cpu/index_statistics.h"
#include "csrc/cpu/indexer_scores.h"
#include "csrc/cpu/kl_loss.h"

namespace hyper_parallel::cpu {

struct DenseKlLossTensors : KlLossTensors {
  TensorView softmax_max_index;
  TensorView softmax_sum_index;
};

}  // namespace hyper_parallel::cpu

#define HP_EACH_INSTRUCTION_SET "csrc/cpu/dense_kl_loss.h"
#include "csrc/cpu/each_instruction_set.h"

#endif  // HP_CPU_DENSE_KL_LOSS_H
#else

template <typename Real>
class DenseKlLossRows {
 public:
  DenseKlLossRows(const DenseKlLossTensors& tensors, const Document& document, int64_t first_row, int64_t rows)
      : tensors_(tensors),
        document_(document),
        first_row_(first_row),
        rows_(rows),
        heads_(tensors.heads()),
        size_(tensors.head_size() + tensors.rope_size()),
        index_heads_(tensors.index_heads()),
        index_size_(tensors.index_size()),
        index_stride_(PaddedSize(tensors.index_size())),
        query_(heads_ * size_ * kWidth),
        keys_(kChunkKeys * size_),
        max_(heads_ * kWidth),
        sum_(heads_ * kWidth),
        index_query_(index_heads_ * index_size_ * kWidth),
        index_query_rows_(index_heads_ * kWidth * index_stride_),
        index_keys_(kChunkKeys * index_stride_),
        index_statistics_(2 * kWidth),
        weights_(index_heads_ * kWidth),
        scores_(kChunkKeys * kWidth),
        products_(kChunkKeys * index_heads_ * kWidth),
        probabilities_(kChunkKeys * kWidth),
        d_query_(index_heads_ * index_stride_ * kWidth),
        d_weights_(index_heads_ * kWidth) {
    LoadIndexer();
    LoadAttention();
  }

  // Writes d_query_index and d_weights, adds to d_key [.][PaddedSize], returns the rows' loss.
  double Run(double* d_key) {
    const int64_t visible = document_.VisibleKeys(first_row_ + rows_ - 1);
    for (int64_t j = 0; j < visible; j += kChunkKeys) {
      const int64_t count = std::min(kChunkKeys, visible - j);
      seen_ = KeysInSight<Real>(document_, first_row_, rows_, j);
      LoadKeys<Real>(
        tensors_.key_index, document_.key_begin + j, count, 1, 0, index_size_, index_stride_, index_keys_.data()
      );
      IndexScores<Real>(
        index_query_.data(), weights_.data(), index_keys_.data(), index_stride_, count, index_heads_, index_size_, scores_.data(), products_.data()
      );
      RebuildAttention(j, count);
      // Whole tiles from here on: no row sees the zeros behind the last key.
      const int64_t padded = (count + kTileRows - 1) / kTileRows * kTileRows;
      ScoresToGradients(padded);
      ProductsToGradients(padded);
      AddQueryGradient(padded);
      AddKeyGradient(padded, d_key + j * index_stride_);
    }
    Store();
    double loss = 0;
    for (int64_t lane = 0; lane < rows_; ++lane) {
      loss += loss_[lane];
    }
    return loss;
  }

 private:
  static constexpr int64_t kWidth = kLanes<Real>;

  void LoadIndexer() {
    const int64_t row = document_.query_begin + first_row_;
    LoadRowsIntoLanes<Real>(
      tensors_.query_index, row, rows_, index_heads_, index_size_, index_size_, index_query_.data()
    );
    LoadRowsIntoLanes<Real>(tensors_.weights, row, rows_, index_heads_, 1, 1, weights_.data());
    LoadElements(tensors_.softmax_max_index, row, rows_, index_statistics_.data());
    LoadElements(tensors_.softmax_sum_index, row, rows_, index_statistics_.data() + kWidth);
    for (int64_t n = 0; n < index_heads_; ++n) {
      for (int64_t lane = 0; lane < rows_; ++lane) {
        Real* target = index_query_rows_.data() + (n * kWidth + lane) * index_stride_;
        LoadElements(tensors_.query_index, ((row + lane) * index_heads_ + n) * index_size_, index_size_, target);
      }
    }
  }

  void LoadAttention() {
    const int64_t row = document_.query_begin + first_row_;
    const int64_t head_size = tensors_.head_size();
    LoadRowsIntoLanes<Real>(tensors_.query, row, rows_, heads_, head_size, size_, query_.data());
    if (tensors_.query_rope.has_value()) {
      Real* rope = query_.data() + head_size * kWidth;
      LoadRowsIntoLanes<Real>(*tensors_.query_rope, row, rows_, heads_, tensors_.rope_size(), size_, rope);
    }
    for (int64_t n = 0; n < heads_; ++n) {
      for (int64_t lane = 0; lane < rows_; ++lane) {
        const int64_t place = tensors_.StatisticsPlace(document_, first_row_ + lane, n);
        LoadElements(tensors_.softmax_max, place, 1, max_.data() + n * kWidth + lane);
        LoadElements(tensors_.softmax_sum, place, 1, sum_.data() + n * kWidth + lane);
      }
    }
  }

  // probabilities_ becomes the sum of the heads' softmaxes for the keys from j on.
  void RebuildAttention(int64_t j, int64_t count) {
    probabilities_.Clear();
    const int64_t head_size = tensors_.head_size();
    const int64_t key_heads = tensors_.key_heads();
    for (int64_t h = 0; h < key_heads; ++h) {
      const int64_t first = document_.key_begin + j;
      LoadKeys<Real>(tensors_.key, first, count, key_heads, h, head_size, size_, keys_.data());
      if (tensors_.key_rope.has_value()) {
        Real* rope = keys_.data() + head_size;
        LoadKeys<Real>(*tensors_.key_rope, first, count, key_heads, h, tensors_.rope_size(), size_, rope);
      }
      for (int64_t n = h * tensors_.group(); n < (h + 1) * tensors_.group(); ++n) {
        AddHead(n, count);
      }
    }
  }

  void AddHead(int64_t n, int64_t count) {
    const auto scale = static_cast<Real>(tensors_.scale);
    const Lanes<Real> zero = {};
    const Lanes<Real> max = LanesAt<Real>(max_.data() + n * kWidth);
    const Lanes<Real> sum = LanesAt<Real>(sum_.data() + n * kWidth);
    const Lanes<Real> factor = sum > zero ? Real(1) / sum : zero;
    const Lanes<Real> seen = sum > zero ? seen_ : zero;  // without a sum a row has no probabilities
    for (int64_t j = 0; j < count; j += kTileRows) {
      Lanes<Real> tile[kTileRows];
      TileProduct<Real>(keys_.data() + j * size_, size_, 1, query_.data() + n * size_ * kWidth, kWidth, size_, tile);
      for (int64_t r = 0; r < kTileRows; ++r) {
        Lanes<Real> part = tile[r] * scale - max;
        Exp(part);
        part = zero + static_cast<Real>(j + r) < seen ? part * factor : zero;
        LanesAt<Real>(probabilities_.data() + (j + r) * kWidth) += part;
      }
    }
  }

  // scores_ becomes d_res = s - p; the loss is added up.
  void ScoresToGradients(int64_t padded) {
    const Lanes<Real> zero = {};
    const auto mean = static_cast<Real>(1.0 / static_cast<double>(heads_));
    const Lanes<Real> smallest = zero + static_cast<Real>(kSmallestProbability);
    const Lanes<Real> max = LanesAt<Real>(index_statistics_.data());
    const Lanes<Real> sum = LanesAt<Real>(index_statistics_.data() + kWidth);
    const Lanes<Real> factor = sum > zero ? Real(1) / sum : zero;
    const Lanes<Real> seen = sum > zero ? seen_ : zero;
    for (int64_t j = 0; j < padded; ++j) {
      const Lanes<Real> p = LanesAt<Real>(probabilities_.data() + j * kWidth) * mean;
      Lanes<Real>& score = LanesAt<Real>(scores_.data() + j * kWidth);
      Lanes<Real> s = score - max;
      Exp(s);
      s = zero + static_cast<Real>(j) < seen ? s * factor : zero;
      Lanes<Real> log_p = p < smallest ? smallest : p;
      Lanes<Real> log_s = s < smallest ? smallest : s;
      Log(log_p);
      Log(log_s);
      AddTo<Real>(loss_, p * (log_p - log_s));
      score = s - p;
    }
  }

  // d_weights is added up; products_ becomes the gradient of query . key.
  void ProductsToGradients(int64_t padded) {
    const Lanes<Real> zero = {};
    for (int64_t n = 0; n < index_heads_; ++n) {
      const Lanes<Real> weight = LanesAt<Real>(weights_.data() + n * kWidth);
      Lanes<Real> d_weight = {};
      for (int64_t j = 0; j < padded; ++j) {
        const Lanes<Real> d_score = LanesAt<Real>(scores_.data() + j * kWidth);
        Lanes<Real>& product = LanesAt<Real>(products_.data() + (j * index_heads_ + n) * kWidth);
        d_weight += d_score * product;
        product = d_score * weight * (product > zero ? zero + Real(1) : zero);
      }
      AddTo<Real>(d_weights_.data() + n * kWidth, d_weight);
    }
  }

  void AddQueryGradient(int64_t padded) {
    for (int64_t n = 0; n < index_heads_; ++n) {
      for (int64_t d = 0; d < index_size_; d += kTileRows) {
        Lanes<Real> tile[kTileRows];
        TileProduct<Real>(
          index_keys_.data() + d, 1, index_stride_, products_.data() + n * kWidth, index_heads_ * kWidth, padded, tile
        );
        for (int64_t r = 0; r < kTileRows; ++r) {
          AddTo<Real>(d_query_.data() + (n * index_stride_ + d + r) * kWidth, tile[r]);
        }
      }
    }
  }

  void AddKeyGradient(int64_t padded, double* d_key) {
    const int64_t terms = index_heads_ * kWidth;
    for (int64_t j = 0; j < padded; j += kTileRows) {
      for (int64_t d = 0; d < index_size_; d += kWidth) {
        Lanes<Real> tile[kTileRows];
        TileProduct<Real>(
          products_.data() + j * terms, terms, 1, index_query_rows_.data() + d, index_stride_, terms, tile
        );
        for (int64_t r = 0; r < kTileRows; ++r) {
          AddTo<Real>(d_key + (j + r) * index_stride_ + d, tile[r]);
        }
      }
    }
  }

  void Store() {
    AlignedBuffer<double> d_query(index_heads_ * index_size_);
    AlignedBuffer<double> d_weights(index_heads_);
    for (int64_t lane = 0; lane < rows_; ++lane) {
      for (int64_t n = 0; n < index_heads_; ++n) {
        d_weights.data()[n] = d_weights_.data()[n * kWidth + lane];
        for (int64_t d = 0; d < index_size_; ++d) {
          d_query.data()[n * index_size_ + d] = d_query_.data()[(n * index_stride_ + d) * kWidth + lane];
        }
      }
      const int64_t row = document_.query_begin + first_row_ + lane;
      StoreElements(d_query.data(), row * d_query.size(), d_query.size(), tensors_.d_query_index);
      StoreElements(d_weights.data(), row * d_weights.size(), d_weights.size(), tensors_.d_weights);
    }
  }

  const DenseKlLossTensors& tensors_;
  const Document& document_;
  const int64_t first_row_;
  const int64_t rows_;
  const int64_t heads_;
  const int64_t size_;  // of a head of the main attention, its rope part joined on
  const int64_t index_heads_;
  const int64_t index_size_;
  const int64_t index_stride_;
  AlignedBuffer<Real> query_;             // [heads][size][kWidth]
  AlignedBuffer<Real> keys_;              // [kChunkKeys][size], of one head
  AlignedBuffer<Real> max_;               // [heads][kWidth]
  AlignedBuffer<Real> sum_;               // [heads][kWidth]
  AlignedBuffer<Real> index_query_;       // [index_heads][index_size][kWidth]
  AlignedBuffer<Real> index_query_rows_;  // [index_heads][kWidth][index_stride]
  AlignedBuffer<Real> index_keys_;        // [kChunkKeys][index_stride]
  AlignedBuffer<Real> index_statistics_;  // maximum and sum: [2][kWidth]
  AlignedBuffer<Real> weights_;           // [index_heads][kWidth]
  AlignedBuffer<Real> scores_;            // [kChunkKeys][kWidth]
  AlignedBuffer<Real> products_;          // [kChunkKeys][index_heads][kWidth]
  AlignedBuffer<Real> probabilities_;     // [kChunkKeys][kWidth]
  AlignedBuffer<double> d_query_;         // [index_heads][index_stride][kWidth]
  AlignedBuffer<double> d_weights_;       // [index_heads][kWidth]
  Lanes<Real> seen_ = {};                 // how many of the chunk's keys each row sees
  double loss_[kWidth] = {};
};

// The loss of a document; its gradients are written.
template <typename Real>
double DenseKlLossOfDocument(const DenseKlLossTensors& tensors, const Document& document) {
  const auto run_block = [&](int64_t first_row, int64_t rows, double* d_key) {
    return DenseKlLossRows<Real>(tensors, document, first_row, rows).Run(d_key);
  };
  return KlLossOfDocument(tensors, document, kLanes<Real>, run_block);
}

#endif  // HP_VECTOR_BYTES

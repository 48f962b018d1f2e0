// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The projection of all streams of a token to the logits of its mapping, hc_before_norm = flatten(x) @ phi^T, and the
// products of its backward. Below, L = N*N + 2*N is the number of logits and K = N*C the width of all streams.
#pragma once

#include <algorithm>
#include <cstdint>

#include "csrc/cpu/aligned_buffer.h"
#include "csrc/cpu/matrix_product.h"
#include "csrc/cpu/mhc_extents.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/tensor_view.h"
#include "csrc/cpu/token_block.h"

namespace hyper_parallel::cpu {

// Columns [begin, begin + count) of rows [first, first + rows) of a matrix with rows of `width`, to [rows][kChunk].
template <typename Real>
void LoadColumns(
  const TensorView& matrix,
  int64_t first,
  int64_t rows,
  int64_t width,
  int64_t begin,
  int64_t count,
  Real* columns
) {
  for (int64_t i = 0; i < rows; ++i) {
    LoadElements(matrix, (first + i) * width + begin, count, columns + i * kChunk);
  }
}

// phi [L, K] as [K][stride]: a product then has a token's logits side by side.
template <typename Real>
class TransposedPhi {
 public:
  TransposedPhi(const TensorView& phi, const MhcExtents& extents)
      : stride_((extents.logits() + kAlignment - 1) / kAlignment * kAlignment),
        values_(extents.all_widths() * stride_) {
    const int64_t depth = extents.all_widths();
    AlignedBuffer<Real> row(depth);
    for (int64_t l = 0; l < extents.logits(); ++l) {
      LoadElements(phi, l * depth, depth, row.data());
      for (int64_t k = 0; k < depth; ++k) {
        values_.data()[k * stride_ + l] = row.data()[k];
      }
    }
  }

  int64_t stride() const { return stride_; }
  const Real* row(int64_t k) const { return values_.data() + k * stride_; }

 private:
  static constexpr int64_t kAlignment = 16;  // numbers in the longest vector
  int64_t stride_;
  AlignedBuffer<Real> values_;
};

// A block's projection [L][tokens] and its sums of squares [1][tokens].
template <typename Real>
void ProjectBlock(
  const TensorView& x,
  const TransposedPhi<Real>& phi,
  const MhcExtents& extents,
  const TokenBlock& block,
  BlockValues* projection,
  BlockValues* squares
) {
  const auto add_product = HP_FASTEST(AddMatrixProduct<Real>);
  const auto dot = HP_FASTEST(DotProduct<Real>);
  const int64_t depth = extents.all_widths();
  AlignedBuffer<Real> columns((block.count + kRowsBehind) * kChunk);
  AlignedBuffer<double> sums(block.count * phi.stride());
  for (int64_t k = 0; k < depth; k += kChunk) {
    const int64_t count = std::min(kChunk, depth - k);
    LoadColumns(x, block.begin, block.count, depth, k, count, columns.data());
    for (int64_t t = 0; t < block.count; ++t) {
      (*squares)[0][t] += dot(columns.data() + t * kChunk, columns.data() + t * kChunk, count);
    }
    for (int64_t begin = 0; begin < count; begin += kStretch) {
      const Factor<Real> tokens{columns.data() + begin, kChunk, 1};
      const int64_t steps = std::min(kStretch, count - begin);
      add_product(tokens, phi.row(k + begin), phi.stride(), block.count, steps, extents.logits(), sums.data());
    }
  }
  for (int64_t l = 0; l < extents.logits(); ++l) {
    for (int64_t t = 0; t < block.count; ++t) {
      (*projection)[l][t] = sums.data()[t * phi.stride() + l];
    }
  }
}

// h_in = sum_n h_pre[n] * x[n, :] of a block.
template <typename Real>
void MixStreams(
  const TensorView& x,
  const BlockValues& h_pre,
  const MhcExtents& extents,
  const TokenBlock& block,
  const TensorView& h_in
) {
  const auto product = HP_FASTEST(MatrixProduct<Real>);
  AlignedBuffer<Real> weights(extents.streams * (1 + kRowsBehind));
  AlignedBuffer<Real> columns(extents.streams * kChunk);
  AlignedBuffer<Real> mixed(kChunk);
  const Factor<Real> row{weights.data(), extents.streams, 1};
  for (int64_t t = 0; t < block.count; ++t) {
    const int64_t token = block.begin + t;
    for (int64_t n = 0; n < extents.streams; ++n) {
      weights.data()[n] = static_cast<Real>(h_pre[n][t]);
    }
    for (int64_t c = 0; c < extents.width; c += kChunk) {
      const int64_t count = std::min(kChunk, extents.width - c);
      LoadColumns(x, token * extents.streams, extents.streams, extents.width, c, count, columns.data());
      product(row, columns.data(), kChunk, 1, extents.streams, count, mixed.data());
      StoreElements(mixed.data(), token * extents.width + c, count, h_in);
    }
  }
}

// The gradient of h_pre, sum_c x[n, c] * grad_h_in[c] of a block, [N][tokens].
template <typename Real>
BlockValues MixingWeightGradient(
  const TensorView& x,
  const TensorView& grad_h_in,
  const MhcExtents& extents,
  const TokenBlock& block
) {
  const auto dot = HP_FASTEST(DotProduct<Real>);
  BlockValues sums(extents.streams, block);
  AlignedBuffer<Real> gradient(kChunk);
  AlignedBuffer<Real> columns(extents.streams * kChunk);
  for (int64_t t = 0; t < block.count; ++t) {
    const int64_t token = block.begin + t;
    for (int64_t c = 0; c < extents.width; c += kChunk) {
      const int64_t count = std::min(kChunk, extents.width - c);
      LoadElements(grad_h_in, token * extents.width + c, count, gradient.data());
      LoadColumns(x, token * extents.streams, extents.streams, extents.width, c, count, columns.data());
      for (int64_t n = 0; n < extents.streams; ++n) {
        sums[n][t] += dot(columns.data() + n * kChunk, gradient.data(), count);
      }
    }
  }
  return sums;
}

// What reaches the streams through the projection and through its norm, token by token.
template <typename Real>
struct ProjectionGradient {
  explicit ProjectionGradient(const MhcExtents& extents)
      : projection((extents.tokens + kRowsBehind) * extents.logits()), shrinkage(extents.tokens) {}

  AlignedBuffer<Real> projection;   // [tokens][L]: the gradient of hc_before_norm
  AlignedBuffer<double> shrinkage;  // [tokens]: through inv_rms, x gets this multiple of itself
};

// d_x = d_projection @ phi + h_pre * grad_h_in + shrinkage * x, of a block.
template <typename Real>
void StreamGradients(
  const TensorView& x,
  const TensorView& phi,
  const TensorView& grad_h_in,
  const BlockValues& h_pre,
  const ProjectionGradient<Real>& given,
  const MhcExtents& extents,
  const TokenBlock& block,
  const TensorView& d_x
) {
  const auto product = HP_FASTEST(MatrixProduct<Real>);
  const int64_t logits = extents.logits();
  const int64_t depth = extents.all_widths();
  const Factor<Real> d_projection{given.projection.data() + block.begin * logits, logits, 1};
  AlignedBuffer<Real> phi_columns(logits * kChunk);
  AlignedBuffer<Real> gradient(kChunk);
  AlignedBuffer<Real> stream(kChunk);
  AlignedBuffer<Real> result(block.count * kChunk);
  for (int64_t n = 0; n < extents.streams; ++n) {
    for (int64_t c = 0; c < extents.width; c += kChunk) {
      const int64_t count = std::min(kChunk, extents.width - c);
      LoadColumns(phi, 0, logits, depth, n * extents.width + c, count, phi_columns.data());
      product(d_projection, phi_columns.data(), kChunk, block.count, logits, count, result.data());
      for (int64_t t = 0; t < block.count; ++t) {
        const int64_t token = block.begin + t;
        const int64_t place = (token * extents.streams + n) * extents.width + c;
        const Real weight = static_cast<Real>(h_pre[n][t]);
        const Real shrinkage = static_cast<Real>(given.shrinkage.data()[token]);
        Real* row = result.data() + t * kChunk;
        LoadElements(grad_h_in, token * extents.width + c, count, gradient.data());
        LoadElements(x, place, count, stream.data());
        for (int64_t i = 0; i < count; ++i) {
          row[i] += weight * gradient.data()[i] + shrinkage * stream.data()[i];
        }
        StoreElements(row, place, count, d_x);
      }
    }
  }
}

// d_phi [L, K] = d_projection^T @ flatten(x), a sum over all tokens. Each piece of work has columns of its own, and
// adds the tokens in order: the result does not depend on the number of threads.
template <typename Real>
void PhiGradient(
  const TensorView& x,
  const ProjectionGradient<Real>& given,
  const MhcExtents& extents,
  const TensorView& d_phi
) {
  const auto add_product = HP_FASTEST(AddMatrixProduct<Real>);
  const int64_t logits = extents.logits();
  const int64_t depth = extents.all_widths();
  ParallelFor(0, depth, kChunk, [&](int64_t begin, int64_t end) {
    AlignedBuffer<Real> columns(kStretch * kChunk);
    AlignedBuffer<double> sums(logits * kChunk);
    for (int64_t token = 0; token < extents.tokens; token += kStretch) {
      const int64_t count = std::min(kStretch, extents.tokens - token);
      const Factor<Real> transposed{given.projection.data() + token * logits, 1, logits};
      LoadColumns(x, token, count, depth, begin, end - begin, columns.data());
      add_product(transposed, columns.data(), kChunk, logits, count, end - begin, sums.data());
    }
    for (int64_t l = 0; l < logits; ++l) {
      StoreElements(sums.data() + l * kChunk, l * depth + begin, end - begin, d_phi);
    }
  });
}

}  // namespace hyper_parallel::cpu

// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Sinkhorn iterations on the matrices [N, N] of a block of tokens: step 0 is the softmax of the rows, odd steps divide
// by the sums of the columns, even ones by the sums of the rows. hc_eps is added to the softmax and to every sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "csrc/cpu/token_block.h"

namespace hyper_parallel::cpu {

// Where the numbers lie that one sum of a step runs over: sum s over the entries s * outer + i * inner.
struct SinkhornAxes {
  int64_t outer;
  int64_t inner;
};

inline SinkhornAxes AxesOfStep(int64_t step, int64_t streams) {
  return step % 2 == 0 ? SinkhornAxes{streams, 1} : SinkhornAxes{1, streams};
}

// totals[t] = sum of a[t] * b[t] over the N entries of sum s.
inline void InnerProduct(
  const BlockValues& a,
  const BlockValues& b,
  const SinkhornAxes& axes,
  int64_t streams,
  int64_t s,
  double* totals
) {
  std::fill_n(totals, a.tokens(), 0.0);
  for (int64_t i = 0; i < streams; ++i) {
    const double* first = a[s * axes.outer + i * axes.inner];
    const double* second = b[s * axes.outer + i * axes.inner];
    for (int64_t t = 0; t < a.tokens(); ++t) {
      totals[t] += first[t] * second[t];
    }
  }
}

// matrix = softmax of its rows + hc_eps. Not a number anywhere in a row makes all of it so.
inline void SoftmaxRows(int64_t streams, double hc_eps, BlockValues* matrix) {
  for (int64_t m = 0; m < streams; ++m) {
    for (int64_t t = 0; t < matrix->tokens(); ++t) {
      double max = (*matrix)[m * streams][t];
      for (int64_t n = 1; n < streams; ++n) {
        max = std::max(max, (*matrix)[m * streams + n][t]);
      }
      double sum = 0;
      for (int64_t n = 0; n < streams; ++n) {
        double& value = (*matrix)[m * streams + n][t];
        value = std::exp(value - max);
        sum += value;
      }
      for (int64_t n = 0; n < streams; ++n) {
        double& value = (*matrix)[m * streams + n][t];
        value = value / sum + hc_eps;
      }
    }
  }
}

// One step after step 0: the sums [N] of the rows or columns plus hc_eps, and the matrix divided by them.
inline void NormaliseStep(int64_t step, int64_t streams, double hc_eps, BlockValues* matrix, BlockValues* sums) {
  const SinkhornAxes axes = AxesOfStep(step, streams);
  for (int64_t s = 0; s < streams; ++s) {
    double* sum = (*sums)[s];
    std::fill_n(sum, matrix->tokens(), 0.0);
    for (int64_t i = 0; i < streams; ++i) {
      const double* values = (*matrix)[s * axes.outer + i * axes.inner];
      for (int64_t t = 0; t < matrix->tokens(); ++t) {
        sum[t] += values[t];
      }
    }
    for (int64_t t = 0; t < matrix->tokens(); ++t) {
      sum[t] += hc_eps;
    }
    for (int64_t i = 0; i < streams; ++i) {
      double* values = (*matrix)[s * axes.outer + i * axes.inner];
      for (int64_t t = 0; t < matrix->tokens(); ++t) {
        values[t] /= sum[t];
      }
    }
  }
}

// From the gradient of a step's matrix to that of the matrix before it, in place. With y = a / (sum(a) + eps),
// da = (dy - sum(dy * y)) / (sum(a) + eps).
inline void NormaliseStepBackward(
  int64_t step,
  int64_t streams,
  const BlockValues& matrix,
  const BlockValues& sums,
  BlockValues* gradient
) {
  const SinkhornAxes axes = AxesOfStep(step, streams);
  std::vector<double> inner(static_cast<size_t>(matrix.tokens()));
  for (int64_t s = 0; s < streams; ++s) {
    InnerProduct(*gradient, matrix, axes, streams, s, inner.data());
    const double* sum = sums[s];
    for (int64_t i = 0; i < streams; ++i) {
      double* values = (*gradient)[s * axes.outer + i * axes.inner];
      for (int64_t t = 0; t < matrix.tokens(); ++t) {
        values[t] = (values[t] - inner[static_cast<size_t>(t)]) / sum[t];
      }
    }
  }
}

// From the gradient of step 0's matrix to that of the logits, in place. With s = softmax(a),
// da = s * (ds - sum(ds * s)).
inline void SoftmaxRowsBackward(int64_t streams, double hc_eps, const BlockValues& matrix, BlockValues* gradient) {
  BlockValues softmax = matrix;
  for (int64_t entry = 0; entry < streams * streams; ++entry) {
    for (int64_t t = 0; t < matrix.tokens(); ++t) {
      softmax[entry][t] -= hc_eps;
    }
  }
  std::vector<double> inner(static_cast<size_t>(matrix.tokens()));
  for (int64_t m = 0; m < streams; ++m) {
    InnerProduct(*gradient, softmax, {streams, 1}, streams, m, inner.data());
    for (int64_t entry = m * streams; entry < (m + 1) * streams; ++entry) {
      for (int64_t t = 0; t < matrix.tokens(); ++t) {
        double& value = (*gradient)[entry][t];
        value = softmax[entry][t] * (value - inner[static_cast<size_t>(t)]);
      }
    }
  }
}

}  // namespace hyper_parallel::cpu

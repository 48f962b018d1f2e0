// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Post-mapping of manifold-constrained hyper-connections on the host.
//
// With the streams and the layer's output as one matrix Z = [x; h_out] of N + 1 rows, and their weights as one matrix
// W = [h_res; h_post] of N + 1 rows and N columns, a token's out is W^T @ Z, and backwards dZ = W @ grad_out and
// dW = Z @ grad_out^T.
#pragma once

#include <algorithm>
#include <cstdint>

#include "csrc/cpu/aligned_buffer.h"
#include "csrc/cpu/matrix_product.h"
#include "csrc/cpu/mhc_extents.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

namespace mhc_post_detail {

constexpr int64_t kGrain = 16;  // tokens of a piece of work

inline MhcTensors CheckInputs(
  const TensorView& x,
  const TensorView& h_res,
  const TensorView& h_out,
  const TensorView& h_post
) {
  MhcTensors tensors(x);
  tensors.Bind("h_res", h_res, ". N N");
  tensors.Bind("h_out", h_out, ". C");
  tensors.Bind("h_post", h_post, ". N");
  return tensors;
}

// `rows` rows of a tensor [tokens, rows, width], of which kChunk columns are in scratch memory.
struct Rows {
  const TensorView& view;
  int64_t rows;
  int64_t width;

  template <typename Real>
  void Load(int64_t token, int64_t begin, int64_t count, Real* columns) const {
    for (int64_t i = 0; i < rows; ++i) {
      LoadElements(view, (token * rows + i) * width + begin, count, columns + i * kChunk);
    }
  }
  template <typename Real>
  void Store(const Real* columns, int64_t token, int64_t begin, int64_t count) const {
    for (int64_t i = 0; i < rows; ++i) {
      StoreElements(columns + i * kChunk, (token * rows + i) * width + begin, count, view);
    }
  }
};

// A token's tensors in the kernel's precision.
template <typename Real>
struct Scratch {
  explicit Scratch(int64_t streams)
      : weights((streams + 1 + kRowsBehind) * (streams + 1)),
        z((streams + 1) * kChunk),
        gradient(streams * kChunk),
        result((streams + 1) * kChunk) {}

  AlignedBuffer<Real> weights;   // W [N + 1][N], and what a product may read behind it
  AlignedBuffer<Real> z;         // columns of Z [N + 1][kChunk]
  AlignedBuffer<Real> gradient;  // [N][kChunk]
  AlignedBuffer<Real> result;    // [N + 1][kChunk]

  void LoadWeights(const TensorView& h_res, const TensorView& h_post, int64_t token, int64_t streams) {
    LoadElements(h_res, token * streams * streams, streams * streams, weights.data());
    LoadElements(h_post, token * streams, streams, weights.data() + streams * streams);
  }
};

template <typename Real>
void Forward(
  const MhcExtents& extents,
  const TensorView& x,
  const TensorView& h_res,
  const TensorView& h_out,
  const TensorView& h_post,
  const TensorView& out
) {
  const int64_t streams = extents.streams;
  const int64_t width = extents.width;
  const auto product = HP_FASTEST(MatrixProduct<Real>);
  ParallelFor(0, extents.tokens, kGrain, [&](int64_t begin, int64_t end) {
    Scratch<Real> scratch(streams);
    const Factor<Real> transposed{scratch.weights.data(), 1, streams};
    for (int64_t token = begin; token < end; ++token) {
      scratch.LoadWeights(h_res, h_post, token, streams);
      for (int64_t c = 0; c < width; c += kChunk) {
        const int64_t count = std::min(kChunk, width - c);
        Rows{x, streams, width}.Load(token, c, count, scratch.z.data());
        Rows{h_out, 1, width}.Load(token, c, count, scratch.z.data() + streams * kChunk);
        product(transposed, scratch.z.data(), kChunk, streams, streams + 1, count, scratch.result.data());
        Rows{out, streams, width}.Store(scratch.result.data(), token, c, count);
      }
    }
  });
}

// Adds the products of columns of Z and of grad_out to dW [N + 1][N].
template <typename Real>
void AddWeightGradients(const Scratch<Real>& scratch, int64_t streams, int64_t count, double* d_weights) {
  const auto dot = HP_FASTEST(DotProduct<Real>);
  for (int64_t m = 0; m <= streams; ++m) {
    for (int64_t n = 0; n < streams; ++n) {
      d_weights[m * streams + n] += dot(scratch.z.data() + m * kChunk, scratch.gradient.data() + n * kChunk, count);
    }
  }
}

template <typename Real>
void Backward(
  const MhcExtents& extents,
  const TensorView& grad_out,
  const TensorView& x,
  const TensorView& h_res,
  const TensorView& h_out,
  const TensorView& h_post,
  const TensorView& d_x,
  const TensorView& d_h_res,
  const TensorView& d_h_out,
  const TensorView& d_h_post
) {
  const int64_t streams = extents.streams;
  const int64_t width = extents.width;
  const auto product = HP_FASTEST(MatrixProduct<Real>);
  ParallelFor(0, extents.tokens, kGrain, [&](int64_t begin, int64_t end) {
    Scratch<Real> scratch(streams);
    const Factor<Real> weights{scratch.weights.data(), streams, 1};
    AlignedBuffer<double> d_weights((streams + 1) * streams);
    for (int64_t token = begin; token < end; ++token) {
      scratch.LoadWeights(h_res, h_post, token, streams);
      d_weights.Clear();
      for (int64_t c = 0; c < width; c += kChunk) {
        const int64_t count = std::min(kChunk, width - c);
        Rows{x, streams, width}.Load(token, c, count, scratch.z.data());
        Rows{h_out, 1, width}.Load(token, c, count, scratch.z.data() + streams * kChunk);
        Rows{grad_out, streams, width}.Load(token, c, count, scratch.gradient.data());
        product(weights, scratch.gradient.data(), kChunk, streams + 1, streams, count, scratch.result.data());
        Rows{d_x, streams, width}.Store(scratch.result.data(), token, c, count);
        Rows{d_h_out, 1, width}.Store(scratch.result.data() + streams * kChunk, token, c, count);
        AddWeightGradients(scratch, streams, count, d_weights.data());
      }
      StoreElements(d_weights.data(), token * streams * streams, streams * streams, d_h_res);
      StoreElements(d_weights.data() + streams * streams, token * streams, streams, d_h_post);
    }
  });
}

}  // namespace mhc_post_detail

// out = h_res^T @ x + h_post (outer) h_out, for every token.
//
// x, out [., N, C], h_res [., N, N], h_out [., C], h_post [., N], where . is one or two dims. Each of them float16,
// bfloat16, float32 or float64; computed in double if x is float64, in float otherwise. Throws std::invalid_argument
// for anything else.
//
// Before it is rounded to its type, an entry of out is within (N + 1) * 2^-24 of the sum of its terms' magnitudes.
inline void mhc_post(
  const TensorView& x,
  const TensorView& h_res,
  const TensorView& h_out,
  const TensorView& h_post,
  const TensorView& out
) {
  MhcTensors tensors = mhc_post_detail::CheckInputs(x, h_res, h_out, h_post);
  tensors.Bind("out", out, ". N C");
  const auto run = x.dtype == DType::kFloat64 ? mhc_post_detail::Forward<double> : mhc_post_detail::Forward<float>;
  run(tensors.extents(), x, h_res, h_out, h_post, out);
}

// The gradients of mhc_post from that of out: each has the shape of its input. Types, precision and errors are those of
// mhc_post; the gradients of h_res and h_post are sums over C, whose error does not grow with C.
inline void mhc_post_backward(
  const TensorView& grad_out,
  const TensorView& x,
  const TensorView& h_res,
  const TensorView& h_out,
  const TensorView& h_post,
  const TensorView& d_x,
  const TensorView& d_h_res,
  const TensorView& d_h_out,
  const TensorView& d_h_post
) {
  MhcTensors tensors = mhc_post_detail::CheckInputs(x, h_res, h_out, h_post);
  tensors.Bind("the gradient of out", grad_out, ". N C");
  tensors.Bind("the gradient of x", d_x, ". N C");
  tensors.Bind("the gradient of h_res", d_h_res, ". N N");
  tensors.Bind("the gradient of h_out", d_h_out, ". C");
  tensors.Bind("the gradient of h_post", d_h_post, ". N");
  const auto run = x.dtype == DType::kFloat64 ? mhc_post_detail::Backward<double> : mhc_post_detail::Backward<float>;
  run(tensors.extents(), grad_out, x, h_res, h_out, h_post, d_x, d_h_res, d_h_out, d_h_post);
}

}  // namespace hyper_parallel::cpu

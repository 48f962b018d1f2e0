// The kernels of acme_gated_add for the CPU.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "csrc/cpu/arguments.h"
#include "csrc/cpu/parallel.h"
#include "csrc/cpu/tensor_view.h"

namespace hyper_parallel::cpu {

// What a thread computes at a time. All rows of a channel belong to one thread, so that its sum runs in order.
constexpr int64_t kGatedChannels = 256;

// Checks x, or the gradient in its shape, against branch and gate. Returns the number of channels, D.
inline int64_t CheckGatedAdd(
  const std::string& name,
  const TensorView& x,
  const TensorView& branch,
  const TensorView& gate
) {
  const std::string dims = x.shape.size() == 3 ? "B S D" : "T D";
  Extents extents;
  CheckFloating(name, x);
  extents.Bind(name, x, dims);
  CheckFloating("branch", branch);
  extents.Bind("branch", branch, dims);
  CheckFloating("gate", gate);
  extents.Bind("gate", gate, "D");
  return extents["D"];
}

// sigmoid(gate) of `count` channels from `first` on.
inline std::vector<double> Openings(const TensorView& gate, int64_t first, int64_t count) {
  std::vector<double> openings(static_cast<size_t>(count));
  LoadElements(gate, first, count, openings.data());
  for (double& value : openings) {
    value = 1 / (1 + std::exp(-value));
  }
  return openings;
}

// out = x + sigmoid(gate) * branch, computed in double. x, branch, out: [B, S, D] or [T, D], gate: [D], each float16,
// bfloat16, float32 or float64. Throws std::invalid_argument for anything else.
inline void acme_gated_add(
  const TensorView& x,
  const TensorView& branch,
  const TensorView& gate,
  const TensorView& out
) {
  const int64_t channels = CheckGatedAdd("x", x, branch, gate);
  ParallelFor(0, channels, kGatedChannels, [&](int64_t first, int64_t last) {
    const int64_t count = last - first;
    const std::vector<double> opening = Openings(gate, first, count);
    std::vector<double> stream(opening.size());
    std::vector<double> added(opening.size());
    for (int64_t place = first; place < x.numel(); place += channels) {
      LoadElements(x, place, count, stream.data());
      LoadElements(branch, place, count, added.data());
      for (size_t d = 0; d < opening.size(); ++d) {
        stream[d] += opening[d] * added[d];
      }
      StoreElements(stream.data(), place, count, out);
    }
  });
}

// The gradients: d_x = grad_out, d_branch = sigmoid(gate) * grad_out, and d_gate, a sum over all rows. Shapes and types
// as above. Throws std::invalid_argument for anything else.
inline void acme_gated_add_grad(
  const TensorView& grad_out,
  const TensorView& branch,
  const TensorView& gate,
  const TensorView& d_x,
  const TensorView& d_branch,
  const TensorView& d_gate
) {
  const int64_t channels = CheckGatedAdd("grad_out", grad_out, branch, gate);
  ParallelFor(0, channels, kGatedChannels, [&](int64_t first, int64_t last) {
    const int64_t count = last - first;
    const std::vector<double> opening = Openings(gate, first, count);
    std::vector<double> incoming(opening.size());
    std::vector<double> added(opening.size());
    std::vector<double> sum(opening.size(), 0.0);
    for (int64_t place = first; place < grad_out.numel(); place += channels) {
      LoadElements(grad_out, place, count, incoming.data());
      LoadElements(branch, place, count, added.data());
      StoreElements(incoming.data(), place, count, d_x);
      for (size_t d = 0; d < opening.size(); ++d) {
        sum[d] += incoming[d] * added[d];
        incoming[d] *= opening[d];
      }
      StoreElements(incoming.data(), place, count, d_branch);
    }
    for (size_t d = 0; d < opening.size(); ++d) {
      sum[d] *= opening[d] * (1 - opening[d]);
    }
    StoreElements(sum.data(), first, count, d_gate);
  });
}

}  // namespace hyper_parallel::cpu

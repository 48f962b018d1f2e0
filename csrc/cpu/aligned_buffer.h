// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Scratch memory of a kernel, aligned for vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace hyper_parallel::cpu {

// `count` elements, all zero.
template <typename T>
class AlignedBuffer {
 public:
  explicit AlignedBuffer(int64_t count)
      : memory_(static_cast<T*>(::operator new(Bytes(count), kAlignment))), count_(count) {
    Clear();
  }

  T* data() { return memory_.get(); }
  const T* data() const { return memory_.get(); }
  int64_t size() const { return count_; }
  void Clear() { std::fill(memory_.get(), memory_.get() + count_, T(0)); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  static size_t Bytes(int64_t count) { return static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T); }
  struct Release {
    void operator()(T* memory) const { ::operator delete(memory, kAlignment); }
  };

  std::unique_ptr<T, Release> memory_;
  int64_t count_;
};

}  // namespace hyper_parallel::cpu

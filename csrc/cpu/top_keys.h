// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The best keys of one row, found while its scores come in.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "csrc/cpu/half.h"

namespace hyper_parallel::cpu {

// A key and its score, ordered: of higher score first, of equal scores that of lower position.
template <typename Real>
class RankedKey {
 public:
  RankedKey(Real score, int32_t key) : score_(score), key_(key) {}
  Real score() const { return score_; }
  int32_t key() const { return key_; }
  bool operator<(const RankedKey& other) const {
    return score_ != other.score_ ? score_ > other.score_ : key_ < other.key_;
  }

 private:
  Real score_;
  int32_t key_;
};

// In one integer, which sorts in half the time. Its upper half falls as the score rises: of positive floats all bits
// but the sign are turned, negative ones are in this order as they are, with the sign in front.
template <>
class RankedKey<float> {
 public:
  RankedKey(float score, int32_t key) {
    const uint32_t bits = BitsOfFloat(score + 0.0f);  // -0 becomes 0, which it is equal to
    const uint32_t falling = (bits & kSign) != 0 ? bits : ~bits & ~kSign;
    rank_ = static_cast<uint64_t>(falling) << 32 | static_cast<uint32_t>(key);
  }
  float score() const {
    const auto falling = static_cast<uint32_t>(rank_ >> 32);
    return FloatFromBits((falling & kSign) != 0 ? falling : ~falling & ~kSign);
  }
  int32_t key() const { return static_cast<int32_t>(rank_ & 0xFFFFFFFFu); }
  bool operator<(const RankedKey& other) const { return rank_ < other.rank_; }

 private:
  static constexpr uint32_t kSign = 0x80000000u;
  uint64_t rank_;
};

// Keeps the `count` keys of highest score, at least one, of equal ones those of lower position. Keys have to come in
// rising order.
// Never holds more than 2 * count + 64 candidates, however many keys there are.
template <typename Real>
class TopKeys {
 public:
  explicit TopKeys(int64_t count) : count_(static_cast<size_t>(count)), capacity_(2 * count_ + 64) {}

  void Add(Real score, int64_t key) {
    // Once there are enough, a score that is only equal loses to those that came before it.
    if (enough_ ? score > threshold_ : score == score) {
      candidates_.emplace_back(score, static_cast<int32_t>(key));
      if (candidates_.size() == capacity_) {
        KeepTheBest();
      }
    } else if (std::isnan(score) && not_numbers_.size() < count_) {
      not_numbers_.push_back(static_cast<int32_t>(key));
    }
  }

  // Writes `slots` positions and scores, best first; unused slots get -1 and -inf. Scores that are not a number rank
  // behind everything else, the document's `hidden` keys, which the row does not see, included: as if those had the
  // score -inf.
  void Write(int64_t slots, int64_t hidden, int32_t* positions, Real* scores) {
    KeepTheBest();
    std::sort(candidates_.begin(), candidates_.end());
    std::fill_n(positions, slots, -1);
    std::fill_n(scores, slots, -std::numeric_limits<Real>::infinity());
    for (size_t i = 0; i < candidates_.size(); ++i) {
      positions[i] = candidates_[i].key();
      scores[i] = candidates_[i].score();
    }
    const int64_t first = static_cast<int64_t>(candidates_.size()) + hidden;
    for (size_t i = 0; i < not_numbers_.size() && first + static_cast<int64_t>(i) < slots; ++i) {
      positions[first + static_cast<int64_t>(i)] = not_numbers_[i];
      scores[first + static_cast<int64_t>(i)] = std::numeric_limits<Real>::quiet_NaN();
    }
  }

 private:
  void KeepTheBest() {
    if (candidates_.size() <= count_) {
      return;
    }
    const auto worst = candidates_.begin() + static_cast<std::ptrdiff_t>(count_) - 1;
    std::nth_element(candidates_.begin(), worst, candidates_.end());
    threshold_ = worst->score();
    enough_ = true;
    candidates_.erase(worst + 1, candidates_.end());
  }

  size_t count_;
  size_t capacity_;
  bool enough_ = false;
  Real threshold_ = 0;
  std::vector<RankedKey<Real>> candidates_;
  std::vector<int32_t> not_numbers_;
};

}  // namespace hyper_parallel::cpu

// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Which rows of the query and of the key belong together: one document per batch row in BSND, as given by the
// cumulative lengths in TND.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "csrc/cpu/parallel.h"

namespace hyper_parallel::cpu {

struct Document {
  int64_t query_begin;
  int64_t query_length;
  int64_t key_begin;
  int64_t key_length;

  // Bottom-right aligned causal mask: the last row sees every key. Rows of a document with more queries than keys may
  // see none.
  int64_t VisibleKeys(int64_t row) const {
    return std::max<int64_t>(0, key_length - query_length + row + 1);
  }
};

// Calls fn(document) for each one: many documents side by side, few one after the other, so that threads are left for the
// inside of each.
template <typename Fn>
void ForEachDocument(const std::vector<Document>& documents, const Fn& fn) {
  const auto count = static_cast<int64_t>(documents.size());
  const int64_t grain = count >= 4 * NumThreads() ? 1 : count;
  ParallelFor(0, count, grain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      fn(documents[static_cast<size_t>(i)]);
    }
  });
}

inline std::vector<Document> BatchDocuments(int64_t batch, int64_t query_length, int64_t key_length) {
  std::vector<Document> documents;
  documents.reserve(static_cast<size_t>(batch));
  for (int64_t b = 0; b < batch; ++b) {
    documents.push_back({b * query_length, query_length, b * key_length, key_length});
  }
  return documents;
}

// The cumulative ends have to climb to the token count, or rows would be left unwritten or read beyond the end.
inline void CheckCumulativeEnds(const std::vector<int64_t>& ends, int64_t tokens, const std::string& name) {
  if (ends.empty()) {
    throw std::invalid_argument(name + " is missing: layout TND needs the cumulative document ends");
  }
  int64_t previous = 0;
  for (const int64_t end : ends) {
    if (end < previous) {
      throw std::invalid_argument(
        name + " should not decrease or be negative, but " + std::to_string(end) + " follows " +
        std::to_string(previous)
      );
    }
    previous = end;
  }
  if (previous != tokens) {
    throw std::invalid_argument(
      name + " should end at " + std::to_string(tokens) + " tokens, but ends at " + std::to_string(previous)
    );
  }
}

inline std::vector<Document> PackedDocuments(
  const std::vector<int64_t>& query_ends,
  const std::vector<int64_t>& key_ends,
  int64_t query_tokens,
  int64_t key_tokens
) {
  CheckCumulativeEnds(query_ends, query_tokens, "actual_seq_qlen");
  CheckCumulativeEnds(key_ends, key_tokens, "actual_seq_klen");
  if (query_ends.size() != key_ends.size()) {
    throw std::invalid_argument(
      "actual_seq_qlen and actual_seq_klen should have the same number of documents, but have " +
      std::to_string(query_ends.size()) + " and " + std::to_string(key_ends.size())
    );
  }
  std::vector<Document> documents;
  documents.reserve(query_ends.size());
  int64_t query_begin = 0;
  int64_t key_begin = 0;
  for (size_t i = 0; i < query_ends.size(); ++i) {
    documents.push_back({query_begin, query_ends[i] - query_begin, key_begin, key_ends[i] - key_begin});
    query_begin = query_ends[i];
    key_begin = key_ends[i];
  }
  return documents;
}

}  // namespace hyper_parallel::cpu

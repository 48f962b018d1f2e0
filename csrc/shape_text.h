// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Shapes, lists and dims as messages show them, which is how Python prints them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

namespace hyper_parallel {

inline std::string CommaText(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

// (2, 3), (2,) or ().
inline std::string TupleText(const std::vector<int64_t>& extents) {
  std::vector<std::string> words;
  for (const int64_t extent : extents) {
    words.push_back(std::to_string(extent));
  }
  return "(" + CommaText(words) + (words.size() == 1 ? ",)" : ")");
}

// The first eight numbers of a list: [1, 2] or [1, 2, 3, 4, 5, 6, 7, 8, ...].
inline std::string ListText(const std::vector<int64_t>& values) {
  constexpr size_t most = 8;
  std::vector<std::string> words;
  for (size_t i = 0; i < values.size() && i < most; ++i) {
    words.push_back(std::to_string(values[i]));
  }
  if (values.size() > most) {
    words.emplace_back("...");
  }
  return "[" + CommaText(words) + "]";
}

// The names of a tensor's dims, from a text such as "B S N*N"; `...` is repeated for every dim that it stands for.
inline std::vector<std::string> DimNames(const std::string& dims, size_t rank) {
  std::istringstream text(dims);
  std::vector<std::string> words;
  for (std::string word; text >> word;) {
    words.push_back(word);
  }
  std::vector<std::string> names;
  for (const std::string& word : words) {
    const size_t times = word == "..." ? rank + 1 - words.size() : 1;
    names.insert(names.end(), times, word);
  }
  return names;
}

}  // namespace hyper_parallel

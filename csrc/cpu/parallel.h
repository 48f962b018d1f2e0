// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Loops over several threads of the host kernels' own: frameworks have pools of theirs, but none that all of them share.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace hyper_parallel::cpu {

namespace detail {

constexpr int kMostThreads = 1024;

inline int CheckedThreads(const std::string& text) {
  char* end = nullptr;
  const long count = std::strtol(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || count < 1 || count > kMostThreads) {
    throw std::invalid_argument(
      "HYPER_PARALLEL_CPU_THREADS should be a number of threads from 1 to " + std::to_string(kMostThreads) +
      ", but is '" + text + "'"
    );
  }
  return static_cast<int>(count);
}

inline int ThreadsOfEnvironment() {
  const char* text = std::getenv("HYPER_PARALLEL_CPU_THREADS");
  return text == nullptr || *text == '\0' ? 1 : CheckedThreads(text);
}

inline std::atomic<int>& ThreadsSetting() {
  static std::atomic<int> threads{ThreadsOfEnvironment()};
  return threads;
}

// Inside a worker a nested loop runs as it is.
inline bool& InsideWorker() {
  thread_local bool inside = false;
  return inside;
}

}  // namespace detail

// How many threads a kernel may use: HYPER_PARALLEL_CPU_THREADS, read once, until SetNumThreads says otherwise; else 1.
// Throws std::invalid_argument if the variable is not a number of threads.
inline int NumThreads() {
  return detail::ThreadsSetting();
}

inline void SetNumThreads(int threads) {
  detail::ThreadsSetting() = detail::CheckedThreads(std::to_string(threads));
}

// Calls fn(first, last) for the pieces [first, last) of [begin, end), each `grain` long but for the last one, on up to
// NumThreads() threads. The pieces do not depend on the number of threads, and neither do results, as long as no piece
// reads what another one writes. If pieces throw, the exception of the first of them is rethrown once all threads have
// ended.
template <typename Fn>
void ParallelFor(int64_t begin, int64_t end, int64_t grain, const Fn& fn) {
  grain = std::max<int64_t>(1, grain);
  const int64_t pieces = end > begin ? (end - begin + grain - 1) / grain : 0;
  const auto run_piece = [&](int64_t piece) {
    const int64_t first = begin + piece * grain;
    fn(first, std::min(end, first + grain));
  };
  const int64_t threads = detail::InsideWorker() ? 1 : std::min<int64_t>(NumThreads(), pieces);
  if (threads <= 1) {
    for (int64_t piece = 0; piece < pieces; ++piece) {
      run_piece(piece);
    }
    return;
  }
  std::atomic<int64_t> next{0};
  std::mutex failing;
  std::exception_ptr failure;
  int64_t failed_piece = std::numeric_limits<int64_t>::max();
  const auto work = [&]() {
    detail::InsideWorker() = true;
    for (int64_t piece = next++; piece < pieces; piece = next++) {
      try {
        run_piece(piece);
      } catch (...) {
        const std::lock_guard<std::mutex> lock(failing);
        if (piece < failed_piece) {  // all pieces before it have been taken, so that the first one to fail is known
          failed_piece = piece;
          failure = std::current_exception();
        }
        next = pieces;
      }
    }
    detail::InsideWorker() = false;
  };
  std::vector<std::thread> workers;
  try {
    while (static_cast<int64_t>(workers.size()) + 1 < threads) {
      workers.emplace_back(work);
    }
  } catch (const std::system_error&) {  // no more threads to be had: those that are there do it all
  }
  work();
  for (std::thread& worker : workers) {
    worker.join();
  }
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
}

}  // namespace hyper_parallel::cpu

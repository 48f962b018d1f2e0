// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Parts of the host kernels on their own: driver <part> <input file> <output file>. A part reads float32 numbers and
// writes what it makes of them; their count is a multiple of 16. Failures go to stderr, with exit code 1.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "csrc/cpu/exponential.h"
#include "csrc/cpu/half.h"
#include "csrc/cpu/instruction_sets.h"
#include "csrc/cpu/parallel.h"

#define HP_EACH_INSTRUCTION_SET "lanes/vector_functions.h"
#include "csrc/cpu/each_instruction_set.h"

namespace {

using hyper_parallel::cpu::ParallelFor;

template <typename T>
std::vector<T> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<T> values(bytes.size() / sizeof(T));
  bytes.copy(reinterpret_cast<char*>(values.data()), bytes.size());
  return values;
}

template <typename T>
void Write(const std::string& path, const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
}

template <typename Half>
std::vector<uint16_t> Rounded(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  for (const float value : values) {
    bits.push_back(Half(value).bits);
  }
  return bits;
}

// Vectors have to lie at multiples of their size.
std::vector<float> Mapped(const std::vector<float>& values, void (*function)(float*)) {
  std::vector<float> results;
  for (size_t i = 0; i < values.size(); i += 16) {
    alignas(64) float block[16];
    std::copy(values.begin() + static_cast<int64_t>(i), values.begin() + static_cast<int64_t>(i) + 16, block);
    function(block);
    results.insert(results.end(), block, block + 16);
  }
  return results;
}

// The number of calls for each of 1000 places in pieces of 7, from a loop within each piece of another loop, and of
// exceptions that came through: that of the first piece that throws.
std::vector<float> LoopedOver() {
  std::vector<float> calls(1001, 0.0f);
  ParallelFor(0, 10, 1, [&](int64_t outer, int64_t) {
    ParallelFor(outer * 100, outer * 100 + 100, 7, [&](int64_t first, int64_t last) {
      if ((first - outer * 100) % 7 != 0 || last - first > 7) {
        throw std::runtime_error("not a piece");
      }
      for (int64_t i = first; i < last; ++i) {
        calls[static_cast<size_t>(i)] += 1.0f;
      }
    });
  });
  try {
    ParallelFor(0, 100, 1, [](int64_t i, int64_t) {
      if (i % 10 == 3) {
        throw std::out_of_range(std::to_string(i));
      }
    });
  } catch (const std::out_of_range& error) {
    calls[1000] = error.what() == std::string("3") ? 1.0f : -1.0f;
  }
  return calls;
}

// How many threads work at the same time on as many pieces as there may be threads: none ends before all have begun.
std::vector<float> ThreadsAtOnce() {
  std::atomic<int> begun{0};
  const int threads = hyper_parallel::cpu::NumThreads();
  ParallelFor(0, threads, 1, [&](int64_t, int64_t) {
    ++begun;
    while (begun < threads) {
      std::this_thread::yield();
    }
  });
  return {static_cast<float>(begun)};
}

void Run(const std::string& part, const std::string& input, const std::string& output) {
  namespace cpu = hyper_parallel::cpu;
  if (part == "exp") {
    Write(output, Mapped(Read<float>(input), HP_FASTEST(ExpOfBlock)));
  } else if (part == "log") {
    Write(output, Mapped(Read<float>(input), HP_FASTEST(LogOfBlock)));
  } else if (part == "float16") {
    Write(output, Rounded<cpu::Float16>(Read<float>(input)));
  } else if (part == "bfloat16") {
    Write(output, Rounded<cpu::BFloat16>(Read<float>(input)));
  } else if (part == "loops") {
    Write(output, LoopedOver());
  } else if (part == "threads") {
    Write(output, ThreadsAtOnce());
  } else {
    throw std::invalid_argument("no part " + part);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4) {
      throw std::invalid_argument("usage: driver <part> <input file> <output file>");
    }
    Run(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}

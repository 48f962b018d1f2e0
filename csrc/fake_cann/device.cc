// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
#include "csrc/fake_cann/device.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "csrc/fake_cann/report.h"

namespace fake_cann {
namespace {

struct Device {
  std::recursive_mutex mutex;
  std::map<uintptr_t, size_t> blocks;
  std::deque<std::function<void()>> queue;
  std::string faults;
  bool has_failed = false;
};

// Never destroyed: the framework's threads may come here after the end of main.
Device& TheDevice() {
  static Device* const device = new Device;
  return *device;
}

std::lock_guard<std::recursive_mutex> Locked() {
  return std::lock_guard<std::recursive_mutex>(TheDevice().mutex);
}

thread_local std::string recent_error;

}  // namespace

void* Allocate(size_t size) {
  // Pages that cost nothing before they are touched: frameworks reserve most of a device at once.
  void* const block =
    mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) {
    return nullptr;
  }
  const auto locked = Locked();
  TheDevice().blocks.emplace(reinterpret_cast<uintptr_t>(block), size);
  return block;
}

void Free(void* block) {
  const auto locked = Locked();
  auto& blocks = TheDevice().blocks;
  const auto found = blocks.find(reinterpret_cast<uintptr_t>(block));
  if (found == blocks.end()) {
    AddFault("device memory is freed that has not been allocated");
    return;
  }
  Wait();
  munmap(block, found->second);
  blocks.erase(found);
}

bool IsDeviceMemory(const void* address, size_t size) {
  const auto locked = Locked();
  const auto& blocks = TheDevice().blocks;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const auto next = blocks.upper_bound(begin);
  if (next == blocks.begin()) {
    return false;
  }
  const auto& [start, length] = *std::prev(next);
  return begin + size <= start + length;
}

void Submit(std::function<void()> work) {
  const auto locked = Locked();
  TheDevice().queue.push_back(std::move(work));
}

bool Wait() {
  const auto locked = Locked();
  Device& device = TheDevice();
  while (!device.queue.empty()) {
    const std::function<void()> work = std::move(device.queue.front());
    device.queue.pop_front();
    try {
      work();
    } catch (const std::exception& error) {
      AddFault(error.what());
      device.has_failed = true;
    }
  }
  return !std::exchange(device.has_failed, false);
}

// What nobody has asked for is said at the end: a process that ignores its faults should not look as if it had none.
void SayFaults() {
  std::fprintf(stderr, "%s", TheDevice().faults.c_str());
}

void AddFault(const std::string& fault) {
  static const int at_exit = std::atexit(SayFaults);
  static_cast<void>(at_exit);
  const auto locked = Locked();
  TheDevice().faults += "fake CANN: " + fault + "\n";
  SetRecentError(fault);
}

void SetRecentError(const std::string& error) {
  recent_error = error;
}

const char* RecentError() {
  return recent_error.c_str();
}

}  // namespace fake_cann

const char* fake_cann_take_faults() {
  const auto locked = fake_cann::Locked();
  static std::string* const taken = new std::string;
  *taken = std::exchange(fake_cann::TheDevice().faults, "");
  return taken->c_str();
}

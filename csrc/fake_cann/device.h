// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// A device that computes on the host, as late as CANN's rules allow: work that has been handed to a stream is done when
// somebody waits for it, so that whoever reads without waiting, or frees what is still to be read, gets wrong numbers.
//
// Whatever a real device would not forgive is written down as a fault, with the text that says what happened: many
// callers ignore the status of what they call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace fake_cann {

// Device memory. Null if there is no such amount.
void* Allocate(size_t size);
void Free(void* block);

// Whether all of these bytes are device memory.
bool IsDeviceMemory(const void* address, size_t size);

// Hands work to the device. All streams share one queue: any order that the events of several streams allow is right,
// and the order in which they were handed over always is.
void Submit(std::function<void()> work);

// Does what has been handed over. False if something went wrong since the last time.
bool Wait();

// Writes down what a device would not forgive, and makes it the recent error.
void AddFault(const std::string& fault);

// Makes it the text that the next one who asks for the recent error is told.
void SetRecentError(const std::string& error);

// The recent error.
const char* RecentError();

}  // namespace fake_cann

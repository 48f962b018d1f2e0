// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The vectorised functions on blocks of 16 numbers, for driver.cc.
#ifdef HP_VECTOR_BYTES

inline void ExpOfBlock(float* block) {
  for (int64_t i = 0; i < 16; i += kLanes<float>) {
    Exp(LanesAt<float>(block + i));
  }
}

inline void LogOfBlock(float* block) {
  for (int64_t i = 0; i < 16; i += kLanes<float>) {
    Log(LanesAt<float>(block + i));
  }
}

#endif  // HP_VECTOR_BYTES

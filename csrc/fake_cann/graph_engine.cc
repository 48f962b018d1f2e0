// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// MindSpore's libraries write the texts of error codes into this object when they are loaded.
#include <cstdint>
#include <map>
#include <string>

namespace ge {

class StatusFactory {
 public:
  static StatusFactory* Instance();

 private:
  std::map<uint32_t, std::string> texts_;
};

StatusFactory* StatusFactory::Instance() {
  static StatusFactory factory;
  return &factory;
}

}  // namespace ge

// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// Calls one operator: driver <op> <output folder> <argument>... (see module.h). Prints the launches and the outputs as
// JSON; the outputs' contents go to the folder as output<i>.bin. Failures go to stderr, with exit code 1.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "ms_extension/api.h"

void DefineRecordedModule(pybind11::module_& module);

namespace recording {
namespace {

std::string JsonText(const std::string& text) {
  std::string quoted = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') {
      quoted += '\\';
      quoted += character;
    } else if (static_cast<unsigned char>(character) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned char>(character));
      quoted += escape;
    } else {
      quoted += character;
    }
  }
  return quoted + "\"";
}

std::string JsonList(const std::vector<std::string>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) {
    text += (i == 0 ? "" : ", ") + values[i];
  }
  return text + "]";
}

// Gives a tensor that the operator made its name, on first sight.
std::string NameOf(const ms::Tensor& tensor, int* temporaries) {
  TensorState& state = tensor.state();
  if (state.origin.empty()) {
    state.origin = "temporary " + std::to_string((*temporaries)++);
  }
  const bool given = state.origin.rfind("input", 0) == 0;
  return state.origin + (given ? "" : " " + state.Describe()) + (state.contiguous ? "" : " strided");
}

std::vector<std::string> LaunchTexts() {
  int temporaries = 0;
  std::vector<std::string> texts;
  for (const Launch& launch : Launches()) {
    std::vector<std::string> arguments;
    for (const Argument& argument : launch.arguments) {
      arguments.push_back(JsonText(argument.tensor ? NameOf(*argument.tensor, &temporaries) : argument.text));
    }
    texts.push_back("{\"kernel\": " + JsonText(launch.kernel) + ", \"arguments\": " + JsonList(arguments) + "}");
  }
  return texts;
}

void WriteContents(const ms::Tensor& tensor, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  if (tensor.numel() == 0) {  // stands for a missing gradient: no kernel writes it, and there is nothing to read
    return;
  }
  file.write(static_cast<const char*>(tensor.GetDataPtr()), static_cast<std::streamsize>(tensor.state().bytes()));
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + path);
  }
}

void Call(const std::string& name, const std::string& folder, const std::vector<std::string>& descriptions) {
  pybind11::module_ module;
  DefineRecordedModule(module);
  const auto found = module.operators.find(name);
  if (found == module.operators.end()) {
    throw std::runtime_error("no operator " + name + " is registered");
  }
  const std::vector<ms::Tensor> outputs = found->second(descriptions);
  std::vector<std::string> texts;
  for (size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].state().origin = "output " + std::to_string(i);
    texts.push_back(JsonText(outputs[i].state().Describe()));
  }
  for (const auto& task : Pending()) {
    task();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    WriteContents(outputs[i], folder + "/output" + std::to_string(i) + ".bin");
  }
  std::cout << "{\"launches\": " << JsonList(LaunchTexts()) << ", \"outputs\": " << JsonList(texts) << "}\n";
}

}  // namespace
}  // namespace recording

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " <op> <output folder> <argument>...\n";
    return 2;
  }
  try {
    recording::Call(argv[1], argv[2], std::vector<std::string>(argv + 3, argv + argc));
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
  return 0;
}

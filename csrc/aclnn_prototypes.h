// Copyright 2026 The hpgen authors
// SPDX-License-Identifier: Apache-2.0
//
// The launch macro takes an aclnn function to be of whatever type the arguments have, so that neither the compiler nor
// the kernel notices a wrong one. Where the toolkit has the kernel's header, they are compared with its declaration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "ms_extension/api.h"

// Those of the toolkit, in the global namespace; the framework has its own by the same names.
struct aclTensor;
struct aclIntArray;
struct aclOpExecutor;

// Stands after the include of the kernel's header. It declares a function that nobody calls, and not a specialisation,
// because several operators of one translation unit may launch the same kernel.
#ifndef HP_NO_ACLNN_PROTOTYPES
#define HP_ACLNN_PROTOTYPE(aclnn_name)                                                           \
  namespace hyper_parallel {                                                                     \
  decltype(&::aclnn_name##GetWorkspaceSize) AclnnPrototype(const struct aclnn_name##Prototype*); \
  }
#endif

namespace hyper_parallel {

// For kernels without HP_ACLNN_PROTOTYPE: the struct that a launch names is then a new one, which only this takes.
void AclnnPrototype(const void*);

namespace detail {

// What an argument is when it arrives at the kernel.
template <typename T>
struct AtKernel {
  using type = T;
};

template <>
struct AtKernel<ms::Tensor> {
  using type = const ::aclTensor*;
};

template <>
struct AtKernel<std::vector<int64_t>> {
  using type = const ::aclIntArray*;
};

template <>
struct AtKernel<std::string> {
  using type = const char*;
};

template <typename T>
struct AtKernel<std::optional<T>> : AtKernel<T> {};

template <typename Given, typename Declared>
inline constexpr bool kIsDeclaredAs = std::is_same_v<Given, Declared>;

// Prototypes have `char*` for strings that they only read, and tensors that they write are const or not.
template <typename Given, typename Declared>
inline constexpr bool kIsDeclaredAs<const Given*, Declared*> = std::is_same_v<Given, std::remove_const_t<Declared>>;

// aclDataType, which is complete only where a kernel takes one.
template <typename Declared>
inline constexpr bool kIsDeclaredAs<ms::TypeId, Declared> = std::is_enum_v<Declared>;

template <typename... Arguments>
struct List {};

struct Nothing {};

struct NoWrongArgument {
  static constexpr bool kIsRight = true;
};

// The compiler prints this type.
template <std::size_t position, typename Given, typename Declared>
struct WrongArgument {
  static constexpr bool kIsRight = false;
};

template <std::size_t position>
NoWrongArgument FirstWrong(List<>, List<>) {
  return {};
}

template <std::size_t position, typename Given, typename... Rest>
WrongArgument<position, Given, Nothing> FirstWrong(List<Given, Rest...>, List<>) {
  return {};
}

template <std::size_t position, typename Declared, typename... Rest>
WrongArgument<position, Nothing, Declared> FirstWrong(List<>, List<Declared, Rest...>) {
  return {};
}

template <std::size_t position, typename Given, typename... Further, typename Declared, typename... Rest>
constexpr auto FirstWrong(List<Given, Further...>, List<Declared, Rest...>) {
  if constexpr (kIsDeclaredAs<Given, Declared>) {
    return FirstWrong<position + 1>(List<Further...>(), List<Rest...>());
  } else {
    return WrongArgument<position, Given, Declared>();
  }
}

// Without a prototype, a call is taken as it is.
template <typename Prototype, typename... Arguments>
struct AgainstPrototype {
  using type = NoWrongArgument;
};

template <typename Status, typename... Declared, typename... Arguments>
struct AgainstPrototype<Status (*)(Declared...), Arguments...> {
  using Given = List<typename AtKernel<Arguments>::type..., uint64_t*, ::aclOpExecutor**>;
  using type = decltype(FirstWrong<0>(Given(), List<Declared...>()));
};

}  // namespace detail
}  // namespace hyper_parallel

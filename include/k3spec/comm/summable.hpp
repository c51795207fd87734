#pragma once
/// \file
/// The sum over all ranks of an object that is made of sums.
/// defines: Summable, sum

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include <k3spec/comm/communicator.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
/// A visitor that nvcc takes in a concept, too, as it does no lambda.
struct AnyNumber {
  template <class Number>
  void operator()(Number& /*number*/) const {}
};
}  // namespace detail

/// What says which of its numbers are sums: visit_sums(v) calls v(number) for each double and each count, in an order
/// that hangs on nothing that may differ between ranks.
template <class X>
concept Summable = requires(X& x) {
  x.visit_sums(detail::AnyNumber{});
};

namespace detail {
/// The numbers of one type of an X, side by side. None has more than its bytes hold.
template <class Number, Summable X>
struct Gathered {
  std::array<Number, sizeof(X) / sizeof(Number)> values{};
  std::size_t count = 0;

  explicit Gathered(X& x) {
    x.visit_sums([&]<class N>(N& number) {
      static_assert(std::same_as<N, double> || std::same_as<N, std::int64_t>);
      if constexpr (std::same_as<N, Number>) values[count++] = number;
    });
  }
  std::span<Number> span() { return std::span(values).first(count); }
  void put_back(X& x) const {
    std::size_t next = 0;
    x.visit_sums([&]<class N>(N& number) {
      if constexpr (std::same_as<N, Number>) number = values[next++];
    });
  }
};
}  // namespace detail

/// Adds up the sums of all ranks; each has the whole then. Allocates nothing.
/// \throws Error as the communicator does, with nothing changed
template <Communicator C, Summable X>
void sum(C& comm, X& x) {
  if (comm.size() == 1) return;
  detail::Gathered<std::int64_t, X> counts(x);
  detail::Gathered<double, X> numbers(x);
  comm.sum(counts.span());
  comm.sum(numbers.span());
  counts.put_back(x);
  numbers.put_back(x);
}

}  // namespace K3SPEC_NAMESPACE

#pragma once
// All laws on one layer. doctest's checks, so that each failure names law, shape and tensor.
#include <doctest/doctest.h>

#include <initializer_list>
#include <regex>
#include <string>
#include <string_view>

#include <tests/laws/laws.hpp>
#include <tests/support/golden_bits.hpp>

namespace k3spec::laws {

/// What the compiler calls T, without the namespaces of this library.
template <class T>
std::string type_name() {
  const std::string_view all = __PRETTY_FUNCTION__;
  const std::size_t begin = all.find("T = ") + 4;
  std::string name = test::golden_name(std::string(all.substr(begin, all.find_first_of(";]", begin) - begin)));
  for (const std::string_view space : {"k3spec::", "laws::", "{anonymous}::", "(anonymous namespace)::"}) {
    for (std::size_t at; (at = name.find(space)) != std::string::npos;) name.erase(at, space.size());
  }
  // Files that are compiled together have namespaces of their own.
  return std::regex_replace(name, std::regex("unit_[0-9]+::"), "");
}

/// A law's case, as a failure names it: "overwrites: RMSNormLaw<11>, float, 2 x 17 rows".
template <class Law, class T>
std::string case_name(std::string_view law, Shape shape) {
  return fmt::format("{}: {}, {}, {} x {} rows", law, type_name<Law>(), type_name<T>(), shape.sequences, shape.length);
}

/// Not a macro in every template: it would be half of what there is to compile.
inline void hold(const std::string& name, const std::string& fault) {
  INFO(name);
  CHECK(fault == "");
}
template <class Law, class T = double>
void hold(std::string_view law, Shape shape, const std::string& fault) {
  hold(case_name<Law, T>(law, shape), fault);
}

template <class Law, class T, class D>
void check_bits(Shape shape) {
  hold<Law, T>("overwrites", shape, overwrites<Law, T, D>(shape));
  hold<Law, T>("plan is exact", shape, plan_is_exact<Law, T, D>(shape));
  hold<Law, T>("never allocates", shape, never_allocates<Law, T, D>(shape));
  hold<Law, T>("threads change nothing", shape, threads_change_nothing<Law, T, D>(shape));
  constexpr bool rows_alone = !Law::products || test::TestDevice<D>::rows_of_products_are_alone;
  if constexpr (!Law::scalar && rows_alone)
    hold<Law, T>("sequences are alone", shape, sequences_are_alone<Law, T, D>(shape));
}

template <class Law, class D = Cpu>
void check(std::initializer_list<Shape> shapes) {
  for (const Shape shape : shapes) {
    hold<Law>("gradients are slopes", shape, gradients_are_slopes<Law, D>(shape));
    hold<Law>("accumulates", shape, accumulates<Law, D>(shape));
    hold<Law, bfloat16>("rounds once", shape, rounds_once<Law, D>(shape));
    check_bits<Law, double, D>(shape);
    check_bits<Law, bfloat16, D>(shape);
  }
}

}  // namespace k3spec::laws

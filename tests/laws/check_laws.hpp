#pragma once
// All laws on one layer. doctest's checks, so that each failure names law, shape and tensor.
#include <doctest/doctest.h>

#include <initializer_list>

#include <tests/laws/laws.hpp>

namespace k3spec::laws {

/// Not a macro in every template: it would be half of what there is to compile.
inline void hold(const char* law, Shape shape, const std::string& fault) {
  CAPTURE(law);
  CAPTURE(shape.sequences);
  CAPTURE(shape.length);
  CHECK(fault == "");
}

template <class Law, class T, class D>
void check_bits(Shape shape) {
  hold("overwrites", shape, overwrites<Law, T, D>(shape));
  hold("plan is exact", shape, plan_is_exact<Law, T, D>(shape));
  hold("never allocates", shape, never_allocates<Law, T, D>(shape));
  hold("threads change nothing", shape, threads_change_nothing<Law, T, D>(shape));
  constexpr bool rows_alone = !Law::products || test::TestDevice<D>::rows_of_products_are_alone;
  if constexpr (!Law::scalar && rows_alone) hold("sequences are alone", shape, sequences_are_alone<Law, T, D>(shape));
}

template <class Law, class D = Cpu>
void check(std::initializer_list<Shape> shapes) {
  for (const Shape shape : shapes) {
    hold("gradients are slopes", shape, gradients_are_slopes<Law, D>(shape));
    hold("accumulates", shape, accumulates<Law, D>(shape));
    hold("rounds once", shape, rounds_once<Law, D>(shape));
    check_bits<Law, double, D>(shape);
    check_bits<Law, bfloat16, D>(shape);
  }
}

}  // namespace k3spec::laws

#pragma once
/// \file
/// The elementwise functions an expression is made of, each with its derivative beside it. `P` is a packet of lanes
/// or a plain scalar; both bring exp, log, tanh, sqrt, abs, min, max, less and select.
///
/// Unary:  value(x), and derivative(x, y) = dy/dx with y = value(x).
/// Binary: value(a, b), and left(a, b, y, d), right(a, b, y, d): the parts of y's adjoint d that go to a and to b.
/// defines: functor::{Negate, Exp, Log, Tanh, Sigmoid, Softplus, Sqrt, Rsqrt, Square, Abs, Add, Subtract, Multiply,
///          Divide, Min, Max}

#include <k3spec/core/float_math.hpp>
#include <k3spec/core/host_device.hpp>

/// \namespace k3spec::functor
/// The functions that formulas are made of, each with its derivative.

namespace K3SPEC_NAMESPACE::functor {

// clang-format off
/// The negative of x.
struct Negate {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) { return -x; }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P, P) { return P(-1); }
};

/// The exponential function.
struct Exp {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) { return exp(x); }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P, P y) { return y; }
};

/// The natural logarithm of x.
struct Log {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) { return log(x); }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P x, P) { return P(1) / x; }
};

/// The hyperbolic tangent of x.
struct Tanh {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) { return tanh(x); }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P, P y) { return P(1) - y * y; }
};

/// 1 / (1 + e^-x)
struct Sigmoid {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) { return P(1) / (P(1) + exp(-x)); }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P, P y) { return y * (P(1) - y); }
};

/// log(1 + e^x), written so that neither end overflows, nor is the lower one lost beside 1: with u = 1 + e rounded,
/// log(1 + e) = log u + (e - (u - 1)) / u, to first order in what u lost.
struct Softplus {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) {
    const P e = exp(-abs(x)), u = P(1) + e;
    return max(x, P(0)) + (log(u) + (e - (u - P(1))) / u);
  }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P x, P) { return Sigmoid::value(x); }
};

/// The square root of x.
struct Sqrt {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) { return sqrt(x); }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P, P y) { return P(0.5) / y; }
};

/// x^-1/2 by exactly rounded steps, never an approximate reciprocal.
struct Rsqrt {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) { return P(1) / sqrt(x); }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P, P y) { return P(-0.5) * y * y * y; }
};

/// The square.
struct Square {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) { return x * x; }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P x, P) { return x + x; }
};

/// |x|; the derivative at 0 is 0, as in PyTorch.
struct Abs {
  template <class P> K3SPEC_HOST_DEVICE static P value(P x) { return abs(x); }
  template <class P> K3SPEC_HOST_DEVICE static P derivative(P x, P) {
    return select(less(P(0), x), P(1), select(less(x, P(0)), P(-1), P(0)));
  }
};

/// The sum of a and b.
struct Add {
  template <class P> K3SPEC_HOST_DEVICE static P value(P a, P b) { return a + b; }
  template <class P> K3SPEC_HOST_DEVICE static P left(P, P, P, P d) { return d; }
  template <class P> K3SPEC_HOST_DEVICE static P right(P, P, P, P d) { return d; }
};

/// The difference a minus b.
struct Subtract {
  template <class P> K3SPEC_HOST_DEVICE static P value(P a, P b) { return a - b; }
  template <class P> K3SPEC_HOST_DEVICE static P left(P, P, P, P d) { return d; }
  template <class P> K3SPEC_HOST_DEVICE static P right(P, P, P, P d) { return -d; }
};

/// The product of a and b.
struct Multiply {
  template <class P> K3SPEC_HOST_DEVICE static P value(P a, P b) { return a * b; }
  template <class P> K3SPEC_HOST_DEVICE static P left(P, P b, P, P d) { return d * b; }
  template <class P> K3SPEC_HOST_DEVICE static P right(P a, P, P, P d) { return d * a; }
};

/// The quotient a / b.
struct Divide {
  template <class P> K3SPEC_HOST_DEVICE static P value(P a, P b) { return a / b; }
  template <class P> K3SPEC_HOST_DEVICE static P left(P, P b, P, P d) { return d / b; }
  template <class P> K3SPEC_HOST_DEVICE static P right(P, P b, P y, P d) { return -(d * y / b); }
};

/// The smaller one; on a tie each side gets half the adjoint, as in PyTorch.
struct Min {
  template <class P> K3SPEC_HOST_DEVICE static P value(P a, P b) { return min(a, b); }
  template <class P> K3SPEC_HOST_DEVICE static P left(P a, P b, P, P d) {
    return select(less(a, b), d, select(less(b, a), P(0), P(0.5) * d));
  }
  template <class P> K3SPEC_HOST_DEVICE static P right(P a, P b, P y, P d) { return left(b, a, y, d); }
};

/// The larger one; ties as for Min.
struct Max {
  template <class P> K3SPEC_HOST_DEVICE static P value(P a, P b) { return max(a, b); }
  template <class P> K3SPEC_HOST_DEVICE static P left(P a, P b, P y, P d) { return Min::left(b, a, y, d); }
  template <class P> K3SPEC_HOST_DEVICE static P right(P a, P b, P y, P d) { return Min::left(a, b, y, d); }
};
// clang-format on

}  // namespace K3SPEC_NAMESPACE::functor

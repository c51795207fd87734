#pragma once
/// \file
/// The bytes and multiply-adds of what a training step asks for.
/// defines: overloads for Counted

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <type_traits>

#include <k3spec/backend/block_problem.hpp>
#include <k3spec/backend/move_rows.hpp>
#include <k3spec/backend/product.hpp>
#include <k3spec/backend/rope_problem.hpp>
#include <k3spec/backend/ttt_problem.hpp>
#include <k3spec/expr/results.hpp>

#include "counted.hpp"

namespace K3SPEC_NAMESPACE {

using bench::Work;

namespace counted {

template <class T>
double bytes_of(index_t elements) {
  return static_cast<double>(elements) * sizeof(value_t<T>);
}

/// Bytes that an argument stands for: a view's, of each thing in a tuple, and of a gradient that is added to, twice.
template <class X>
double bytes(const X&) {
  return 0;
}
template <class T, index_t... E>
double bytes(const View<T, E...>& v) {
  return bytes_of<T>(v.size());
}
template <class T>
double bytes(const Overwrite<T>& x) {
  return bytes(x.to);
}
template <class T>
double bytes(const Accumulate<T>& x) {
  return 2 * bytes(x.to);
}
template <class... X>
double bytes(const std::tuple<X...>& all) {
  return std::apply([](const X&... x) { return (0.0 + ... + bytes(x)); }, all);
}

/// Rows of an argument: of the longest view.
template <class X>
index_t columns(const X&) {
  return 0;
}
template <class T, index_t... E>
index_t columns(const View<T, E...>& v) {
  return sizeof...(E) < 2 ? 1 : v.extent(sizeof...(E) - 1);
}
template <class T>
index_t columns(const Overwrite<T>& x) {
  return columns(x.to);
}
template <class T>
index_t columns(const Accumulate<T>& x) {
  return columns(x.to);
}
template <class... X>
index_t columns(const std::tuple<X...>& all) {
  return std::apply([](const X&... x) { return std::max({index_t{0}, columns(x)...}); }, all);
}

/// A launch that reads or writes each of its arguments once.
template <class... A>
void pass(const Counted& device, const char* name, index_t launches, const A&... args) {
  const index_t width = std::max({index_t{0}, columns(args)...});
  const double moved = (0.0 + ... + bytes(args));
  if (moved == 0) return;
  device.ledger->add(std::string(name) + ", rows of " + std::to_string(width), {launches, moved});
}

/// Gradients of what all rows share are a second launch, over columns.
template <class X>
inline constexpr bool is_shared_by_rows = false;
template <class G>
bool sums_rows(const G&, index_t) {
  return false;
}
template <class T>
bool sums_rows(const Overwrite<T>& x, index_t rows) {
  return x.to.extent(0) < rows;
}
template <class T>
bool sums_rows(const Accumulate<T>& x, index_t rows) {
  return x.to.extent(0) < rows;
}

/// Where products of elements of T run.
template <class T>
Work product(double flops) {
  Work work;
  (std::is_same_v<std::remove_const_t<value_t<T>>, float> ? work.slow_flops : work.flops) = flops;
  return work;
}

}  // namespace counted

template <class E, class Y, class... X>
void evaluate(const Counted& device, const E&, const Y& y, const X&... x) {
  counted::pass(device, "formula", 1, y, x...);
}
template <class E, class Y, class... X>
void evaluate_rows(const Counted& device, const E&, const Y& y, const X&... x) {
  counted::pass(device, "formula", 1, y, x...);
}
template <class E, class Y, class... G, class A, class... X>
void differentiate(const Counted& device, const E&, const Y& d_y, const std::tuple<G...>& grads, A&, const X&... x) {
  const index_t rows = d_y.extent(0);
  const bool twice = std::apply([&](const G&... g) { return (false || ... || counted::sums_rows(g, rows)); }, grads);
  counted::pass(device, "gradient", 1, d_y, grads, x...);
  if (twice) counted::pass(device, "gradient, over columns", 1, d_y, x...);
}
template <class E, class Y, class... G, class A, class... X>
void differentiate_rows(const Counted& device, const E& e, const Y& d_y, const std::tuple<G...>& grads, A& scratch,
                        const X&... x) {
  differentiate(device, e, d_y, grads, scratch, x...);
}

namespace counted {

/// A product of a float32 operand x with a bfloat16 one: a pass that makes bfloat16 parts of x, and a product for each
/// part, in panels of x's rows that fit the workspace (backend/cuda/gemm.hpp).
struct MixedProduct {
  double flops, x_elements, other_bytes, c_bytes;
  index_t x_rows;
  bool rows_are_summed;  ///< x's rows are the products' common index: each panel adds to all of C
  bool accumulates;

  Work work(Gradients32 how) const {
    constexpr double workspace = 64 << 20;
    const double parts = how == Gradients32::split ? 3 : 1, part_bytes = 2 * parts;
    const double panel_rows = std::floor(workspace / (part_bytes * x_elements / static_cast<double>(x_rows)));
    const double panels = std::ceil(static_cast<double>(x_rows) / std::max(1.0, panel_rows));
    const double passes_of_c = parts * (rows_are_summed ? panels : 1);
    Work w;
    w.launches = static_cast<index_t>(panels * (1 + parts));
    w.flops = flops * parts;
    w.bytes = x_elements * (sizeof(float) + 2 * part_bytes) + parts * other_bytes * (rows_are_summed ? 1 : panels) +
              c_bytes * (2 * passes_of_c - (accumulates ? 0 : 1));
    return w;
  }
};

}  // namespace counted

template <AnyView A, AnyView B, AnyView C>
void gemm(const Counted& device, const A& a, Op op_a, const B& b, Op op_b, const C& c, Into into = Into::overwrite) {
  if (into == Into::nothing) return;
  using TA = std::remove_const_t<value_t<typename A::value_type>>;
  using TB = std::remove_const_t<value_t<typename B::value_type>>;
  const auto [m, n, k] = product_shape(a, op_a, b, op_b, c);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool accumulates = into == Into::accumulate;
  if (flops == 0) return;
  if constexpr (std::is_same_v<TA, TB>) {
    Work work = counted::product<TA>(flops);
    work.bytes = counted::bytes(a) + counted::bytes(b) + counted::bytes(c) * (accumulates ? 2 : 1);
    device.ledger->add("product", work);
  } else {
    constexpr bool a_is_float = std::is_same_v<TA, float>;
    const auto mixed = [&](const auto& x, const auto& other, bool rows_are_summed) {
      return counted::MixedProduct{flops,
                                   static_cast<double>(x.size()),
                                   counted::bytes(other),
                                   counted::bytes(c),
                                   x.extent(0),
                                   rows_are_summed,
                                   accumulates};
    };
    const auto product = a_is_float ? mixed(a, b, op_a == Op::transposed) : mixed(b, a, op_b == Op::plain);
    device.ledger->add("product with gradients", product.work(device.gradients));
  }
}

// ---- Attention: each query with the keys that it sees. Backward makes scores and weights again in both of its passes,
// one over the queries and one over the keys: four products of the queries' width, three of the values'.

namespace counted {

template <class Heads, class T>
void attend(const Counted& device, const char* name, double pairs, double bytes, double products_qk,
            double products_v) {
  Work work = product<T>(2 * pairs * static_cast<double>(Heads::count) *
                         (products_qk * static_cast<double>(Heads::qk) + products_v * static_cast<double>(Heads::v)));
  work.bytes = bytes;
  device.ledger->add(name, work);
}

template <class T>
double key_bytes(const AttentionKeys<T>& keys) {
  return bytes(keys.kv) + bytes(keys.k_rope);
}
template <class T>
double step_bytes(const AttentionSteps<T>& steps) {
  double sum = 0;
  for (index_t k = 0; k < steps.count; ++k) sum += key_bytes(steps[k]);
  return sum;
}

template <class Heads, class T, class Visible>
double pairs(const TttProblem<Heads, T, Visible>& p) {
  double n = 0;
  for (index_t s = 0; s < p.span.sequences; ++s) {
    for (index_t q = 0; q < p.span.queries; ++q) {
      const index_t at = p.span.first + q;
      n += static_cast<double>(p.visible.end(s, at) - p.visible.begin(s, at) + p.steps.count - 1);
    }
  }
  return n;
}
template <class Heads, class T>
double pairs(const BlockProblem<Heads, T, BlockVisibility>& p) {
  double n = 0;
  for (index_t s = 0; s < p.span.sequences; ++s) {
    for (index_t b = 0; b < p.span.blocks; ++b) {
      for (index_t offset = 0; offset < p.span.block_size; ++offset) {
        const Interval seen = p.visible.context(p.span, s, b, offset);
        n += static_cast<double>(std::max(index_t{0}, seen.end - seen.begin) + p.visible.noise(p.span, offset));
      }
    }
  }
  return n;
}

}  // namespace counted

template <class Heads, class T, class Visible>
void ttt_forward_kernel(const Counted& device, const TttProblem<Heads, T, Visible>& p, const auto& result) {
  counted::attend<Heads, T>(
      device, "attention forward", counted::pairs(p),
      counted::bytes(p.q) + counted::step_bytes(p.steps) + counted::bytes(result.o) + counted::bytes(result.lse), 1, 1);
}
template <class Heads, class T, class Visible>
void ttt_backward_kernel(const Counted& device, const TttProblem<Heads, T, Visible>& p, const auto& result,
                         const auto& d_o, const auto& grads, const auto&) {
  const double read = counted::bytes(p.q) + counted::step_bytes(p.steps) + counted::bytes(result.lse) +
                      counted::bytes(result.o) + counted::bytes(d_o);
  const double written = counted::bytes(grads.d_q) * (grads.into_q == Into::accumulate ? 2 : 1) +
                         counted::step_bytes(grads.d_steps) * (grads.into_steps == Into::accumulate ? 2 : 1);
  counted::attend<Heads, T>(device, "attention backward", counted::pairs(p), 2 * read + written, 4, 3);
  device.ledger->add("attention backward", {1});  // over the keys
}
template <class Heads, class T, class Visible>
void block_forward_kernel(const Counted& device, const BlockProblem<Heads, T, Visible>& p, const auto& result) {
  counted::attend<Heads, T>(device, "attention forward", counted::pairs(p),
                            counted::bytes(p.q) + counted::key_bytes(p.context) + counted::key_bytes(p.noise) +
                                counted::bytes(result.o) + counted::bytes(result.lse),
                            1, 1);
}
template <class Heads, class T, class Visible>
void block_backward_kernel(const Counted& device, const BlockProblem<Heads, T, Visible>& p, const auto& result,
                           const auto& d_o, const auto& grads, const auto&) {
  const double read = counted::bytes(p.q) + counted::key_bytes(p.context) + counted::key_bytes(p.noise) +
                      counted::bytes(result.lse) + counted::bytes(result.o) + counted::bytes(d_o);
  const auto times = [](Into into) { return into == Into::accumulate ? 2.0 : 1.0; };
  const double written = counted::bytes(grads.d_q) * times(grads.into_q) +
                         counted::key_bytes(grads.d_context) * times(grads.into_context) +
                         counted::key_bytes(grads.d_noise) * times(grads.into_noise);
  counted::attend<Heads, T>(device, "attention backward", counted::pairs(p), 2 * read + written, 4, 3);
  device.ledger->add("attention backward", {1});
}

// ---- Rows that go somewhere else

template <class Heads, class T>
void rope_kernel(const Counted& device, const RopeProblem<Heads, T>& p, Rotation) {
  const double share = static_cast<double>(Heads::rope) / static_cast<double>(Heads::qk);
  device.ledger->add("rope", {1, 2 * (counted::bytes(p.q) * share + counted::bytes(p.k_rope))});
}
template <class T>
void move_rows_kernel(const Counted& device, const RowMoves<T>& p) {
  device.ledger->add("rows moved", {1, 2 * counted::bytes_of<T>(p.moves.extent(0) * p.from.extent(1))});
}
template <class Ids, class Table, class Y>
void gather_rows_kernel(const Counted& device, const Ids& ids, const Table&, const Y& y) {
  device.ledger->add("rows moved", {1, counted::bytes(ids) + 2 * counted::bytes(y)});
}
template <class Ids, class X, class Y>
void scatter_rows_kernel(const Counted& device, const Ids& ids, const X& x, const Y&) {
  device.ledger->add("rows moved", {1, counted::bytes(ids) + 2 * counted::bytes(x)});
}
template <class Ids, class Pad, class X, class Y>
void scatter_add_rows_kernel(const Counted& device, const Ids& ids, const Pad&, const X& x, const Y&) {
  device.ledger->add("rows moved", {1, counted::bytes(ids) + 3 * counted::bytes(x)});
}
template <class Columns, class X, class Y>
void gather_columns_kernel(const Counted& device, const Columns& columns, const X&, const Y& y) {
  device.ledger->add("rows moved", {1, counted::bytes(columns) + 2 * counted::bytes(y)});
}
/// One logit of each row.
template <class X, class Largest, class Labels, class Y>
void subtract_label_kernel(const Counted& device, const X&, const Largest& largest, const Labels& labels, const Y& y) {
  device.ledger->add("labels", {1, 2 * counted::bytes(largest) + counted::bytes(labels) + counted::bytes(y)});
}
template <class Labels, class... A>
void subtract_label_backward_kernel(const Counted& device, const Labels& labels, const A&...) {
  device.ledger->add("labels", {1, counted::bytes(labels) * 2});
}

#define K3SPEC_COUNT_PASS(function, name)                  \
  template <class... A>                                    \
  void function(const Counted& device, const A&... args) { \
    counted::pass(device, name, 1, args...);               \
  }
K3SPEC_COUNT_PASS(argmax_kernel, "argmax")
K3SPEC_COUNT_PASS(require_anchors, "check of ids")
K3SPEC_COUNT_PASS(require_token_ids, "check of ids")
K3SPEC_COUNT_PASS(row_adjoints_kernel, "row adjoints")
K3SPEC_COUNT_PASS(shift_ids_left_kernel, "shift")
K3SPEC_COUNT_PASS(shift_states_kernel, "shift")
K3SPEC_COUNT_PASS(sums_of_squares_kernel, "sums of squares")
#undef K3SPEC_COUNT_PASS

}  // namespace K3SPEC_NAMESPACE

#pragma once
/// \file
/// The head of an EAGLE-3 draft: a norm, unless a step has normed its state already (norm_output), and the logits over
/// the draft's vocabulary. H hidden.
/// defines: Eagle3Head

#include <k3spec/config/complete.hpp>
#include <k3spec/core/memory.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/layers/kimi_rms_norm.hpp>
#include <k3spec/layers/linear.hpp>
#include <k3spec/ops/copy.hpp>

namespace K3SPEC_NAMESPACE {

/// W below is the draft's weights, of which `norm` and `lm_head` are read.
template <class Given>
struct Eagle3Head {
  using Config = complete_eagle3_t<Given>;
  static constexpr index_t hidden = Config::hidden_size, draft_vocabulary = Config::draft_vocab_size;
  static constexpr double eps = Config::rms_norm_eps;
  using Norm = KimiRMSNorm<hidden>;
  using Head = Linear<hidden, draft_vocabulary>;

  // Each throws Error on other shapes.

  /// Rows of a step's `out` -> what the head reads: RMS(out), or out itself where the step has normed it already.
  template <Device D, class W, AnyView X, AnyView Y>
  static void head_input(const D& device, const W& w, const X& out, const Y& y) {
    require_shape("Eagle3Head: out", out, out.extent(0), hidden);
    require_shape("Eagle3Head: y", y, out.extent(0), hidden);
    if constexpr (Config::norm_output) {
      copy(device, out, y);
    } else {
      Norm::forward(device, w.norm, eps, out, y);
    }
  }

  /// head_input rows [n, H] -> logits [n, draft vocabulary]
  template <Device D, class W, AnyView X, AnyView Y>
  static void compute_logits(const D& device, const W& w, const X& x, const Y& logits) {
    require_shape("Eagle3Head: x", x, x.extent(0), hidden);
    require_shape("Eagle3Head: logits", logits, x.extent(0), draft_vocabulary);
    Head::forward(device, w.lm_head, x, logits);
  }

  /// d_logits [n, draft vocabulary] and the rows `out`, `x` = head_input(out) they came from -> d_out [n, H].
  /// scratch: head_scratch_bytes(n).
  template <class T, Device D, class W, class DW, AnyView Out, AnyView X, AnyView DY>
  static void head_backward(const Workspace<D>& on, const W& w, const DW& d_w, const Out& out, const X& x,
                            const DY& d_logits, const Destination<accumulate_t<T>>& d_out) {
    const index_t n = out.extent(0);
    require_shape("Eagle3Head: out", out, n, hidden);
    require_shape("Eagle3Head: x", x, n, hidden);
    require_shape("Eagle3Head: d_logits", d_logits, n, draft_vocabulary);
    d_out.check("Eagle3Head: d_out", n, hidden);
    if constexpr (Config::norm_output) {
      Head::template backward<T>(on.device, w.lm_head, d_w.lm_head, x, d_logits, d_out);
    } else {
      Scope scope(on.scratch);
      Rows<accumulate_t<T>, hidden> d_x;
      take_rows(on.scratch, x.extent(0), d_x);
      Head::template backward<T>(on.device, w.lm_head, d_w.lm_head, x, d_logits, d_x);
      Norm::template backward<T>(on, w.norm, d_w.norm, eps, out, d_x, d_out);
    }
  }

  template <class T>
  static constexpr std::size_t head_scratch_bytes(index_t rows) {
    return plan_bytes([&](ArenaPlan& a) {
      if constexpr (!Config::norm_output) a.take<accumulate_t<T>>(rows * hidden);
      a.borrow(Norm::template scratch_bytes<T>(rows));
    });
  }
};

}  // namespace K3SPEC_NAMESPACE

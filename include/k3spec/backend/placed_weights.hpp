#pragma once
/// \file
/// Prepacked weights of a device that does not share the host's memory: W as it is, copied there. A backend that lays
/// them out in another way specialises these for its tag.
/// defines: PrepackedWeights and PrepackedGroups of placed elements, gemm of such weights

#include <string>

#include <k3spec/backend/cpu/gemm_grouped.hpp>
#include <k3spec/backend/cpu/gemm_prepacked.hpp>
#include <k3spec/core/held.hpp>

namespace K3SPEC_NAMESPACE {

/// W [N,K], in the memory of D.
template <Element T, class D>
class PrepackedWeights<Placed<T, D>> {
 public:
  PrepackedWeights() = default;

  /// Copies W, always as it is.
  /// \param w  W [N,K], the host's
  PrepackedWeights(const D& device, const Matrix<const T>& w, KeepWeights = KeepWeights::native)
      : outputs_(w.extent(0)), inputs_(w.extent(1)), held_(device, w) {}

  index_t outputs() const { return outputs_; }
  index_t inputs() const { return inputs_; }
  const Matrix<const Placed<T, D>>& matrix() const { return held_.view(); }
  /// What it holds.
  index_t bytes() const { return outputs_ * inputs_ * static_cast<index_t>(sizeof(T)); }

 private:
  index_t outputs_ = 0, inputs_ = 0;
  Held<D, T, dyn, dyn> held_;
};

/// W_g [N,K] of several groups, in the memory of D.
template <Element T, class D>
class PrepackedGroups<Placed<T, D>> {
 public:
  PrepackedGroups() = default;

  /// Weights of 0.
  PrepackedGroups(const D& device, index_t groups, index_t outputs, index_t inputs)
      : groups_(groups), outputs_(outputs), inputs_(inputs), memory_(device, groups * stride()) {}

  /// Copies the weights of one group; once.
  /// \throws Error on a group that is not there, and a W of another shape
  void set(const D& device, index_t group, const Matrix<const T>& w) {
    detail::require_group(group, groups_);
    require_shape("PrepackedGroups: w", w, outputs_, inputs_);
    upload_rows<T>(device, w, Vector<Placed<T, D>>(memory_.data() + group * stride(), stride()));
  }

  index_t groups() const { return groups_; }
  index_t outputs() const { return outputs_; }
  index_t inputs() const { return inputs_; }
  const Placed<T, D>* data() const { return memory_.data(); }
  /// What they hold.
  index_t bytes() const { return memory_.size() * static_cast<index_t>(sizeof(T)); }
  /// From one group's weights to the next one's.
  index_t stride() const { return outputs_ * inputs_; }

 private:
  index_t groups_ = 0, outputs_ = 0, inputs_ = 0;
  buffer_t<D, T> memory_;
};

/// C [M,N] (= or +=) A [M,K] · Wᵀ
/// \throws Error when the shapes do not fit together
template <Device D, AnyView A, Element T, AnyView C>
void gemm(const D& device, const A& a, const PrepackedWeights<Placed<T, D>>& w, const C& c,
          Into into = Into::overwrite) {
  gemm<Op::plain, Op::transposed>(device, a, w.matrix(), c, into);
}

}  // namespace K3SPEC_NAMESPACE

#pragma once
/// \file
/// Products of groups of rows with frozen weights of their own. With much work threads take groups, each alone.
/// defines: PrepackedGroups, require_groups, grouped_gemm_kernel, grouped_mlp_kernel

#include <concepts>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/backend/cpu/enough_work.hpp>
#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/backend/cpu/gemm_prepacked.hpp>
#include <k3spec/backend/grouped_product.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

namespace detail {
inline void require_group(index_t group, index_t groups) {
  if (group >= 0 && group < groups) return;
  throw Error("PrepackedGroups: group", std::to_string(group), "0 to " + std::to_string(groups - 1));
}
inline void require_set(index_t group, index_t outputs) {
  if (outputs == 0) throw Error("PrepackedGroups: weights of group " + std::to_string(group), "none", "set ones");
}
}  // namespace detail

/// The weights W_g [N,K] of several groups, each as PrepackedWeights keep them.
template <Element T>
class PrepackedGroups {
 public:
  PrepackedGroups() = default;

  /// Groups that are still to be set.
  PrepackedGroups(index_t groups, index_t outputs, index_t inputs)
      : outputs_(outputs), inputs_(inputs), groups_(static_cast<std::size_t>(groups)) {}
  PrepackedGroups(const Cpu&, index_t groups, index_t outputs, index_t inputs)
      : PrepackedGroups(groups, outputs, inputs) {}

  /// Takes memory for all groups as one piece, which large pages serve, before any is set. Those that are then set as
  /// MXFP4's own bits stand in it.
  void reserve_mxfp4() requires(std::same_as<accumulate_t<T>, float>) {
    const index_t group = detail::PrepackedPanels<float>{WeightFormat::mxfp4, outputs_, inputs_}.bytes();
    stride_ = static_cast<index_t>(aligned(static_cast<std::size_t>(group)));
    memory_ = Buffer<std::byte>(uninitialized, groups() * stride_);
  }

  /// Packs the weights of one group.
  /// \throws Error on a group that is not there, and a W of another shape
  void set(index_t group, const Matrix<const T>& w) {
    check(group, w.extent(0), w.extent(1));
    groups_[static_cast<std::size_t>(group)] = PrepackedWeights<T>(w);
  }
  void set(const Cpu&, index_t group, const Matrix<const T>& w) { set(group, w); }
  /// Takes the weights of one group.
  /// \throws Error as the above
  void set(const Cpu&, index_t group, PrepackedWeights<T> w) {
    check(group, w.outputs(), w.inputs());
    groups_[static_cast<std::size_t>(group)] = std::move(w);
  }

  /// Packs the weights of one group by their own bits.
  /// \throws Error as the above
  template <class Read>
  void set(const Cpu& cpu, index_t group, const Mxfp4Rows<Read>& w) {
    check(group, w.outputs, w.inputs);
    std::byte* to = memory_.size() == 0 ? nullptr : memory_.data() + group * stride_;
    groups_[static_cast<std::size_t>(group)] = PrepackedWeights<T>(cpu, w, to);
  }

  index_t groups() const { return static_cast<index_t>(groups_.size()); }
  index_t outputs() const { return outputs_; }
  index_t inputs() const { return inputs_; }
  const PrepackedWeights<T>* data() const { return groups_.data(); }
  /// What they hold.
  index_t bytes() const {
    index_t sum = 0;
    for (const auto& w : groups_) sum += w.bytes();
    return sum;
  }
  /// From one group's weights to the next one's.
  static constexpr index_t stride() { return 1; }

 private:
  void check(index_t group, index_t outputs, index_t inputs) const {
    detail::require_group(group, groups());
    detail::require_extent("PrepackedGroups: outputs", outputs, outputs_);
    detail::require_extent("PrepackedGroups: inputs", inputs, inputs_);
  }

  index_t outputs_ = 0, inputs_ = 0, stride_ = 0;
  std::vector<PrepackedWeights<T>> groups_;
  Buffer<std::byte> memory_;  ///< of MXFP4 groups, if it is reserved
};

/// Refuses groups that are no parts of the rows.
/// \throws Error on groups that do not follow one another within `rows`
inline void require_groups(const Cpu&, const Vector<const index_t>& begin, index_t rows) {
  for (index_t g = 0; g + 1 < begin.extent(0); ++g) {
    require_part("grouped_gemm: rows of a group", begin(g), begin(g + 1) - begin(g), rows);
  }
}

namespace cpu {
/// The product of group g.
/// \throws Error when it has rows and its weights were never set
template <class A, class T, class C>
void multiply_group(const GroupedProduct<A, PrepackedWeights<T>, C>& x, index_t g) {
  const index_t begin = x.begin[g], count = x.begin[g + 1] - begin;
  if (count == 0) return;
  const PrepackedWeights<T>& weights = x.weights[g * x.weights_stride];
  detail::require_set(g, weights.outputs());
  gemm(Cpu{1}, x.a.rows(begin, count), weights, x.c.rows(begin, count));
}
/// Multiply-adds of all groups.
template <class A, class T, class C>
index_t work_of(const GroupedProduct<A, T, C>& x) {
  return x.a.extent(0) * x.c.extent(1) * x.a.extent(1);
}
}  // namespace cpu

/// See ops/grouped_gemm.hpp, which has compared the shapes.
template <class A, class T, class C>
void grouped_gemm_kernel(const Cpu& device, const GroupedProduct<A, T, C>& x) {
  parallel_for(cpu::for_work(device, cpu::work_of(x)), x.groups, [&](index_t g) { cpu::multiply_group(x, g); });
}

/// A device without a better way: one after the other for all groups.
template <Device D, class F, class T, class W>
void grouped_mlp_kernel(const D& device, const F& formula, const GroupedMLP<T, W>& x) {
  grouped_gemm_kernel(device, x.in);
  evaluate(device, formula, x.product, x.gate(), x.up());
  grouped_gemm_kernel(device, x.out);
}

/// A group's rows stay in a thread's cache all the way.
template <class F, class T, class W>
void grouped_mlp_kernel(const Cpu& device, const F& formula, const GroupedMLP<T, W>& x) {
  const Cpu across = cpu::for_work(device, cpu::work_of(x.in) + cpu::work_of(x.out));
  parallel_for(across, x.in.groups, [&](index_t g) {
    const index_t begin = x.in.begin[g], count = x.in.begin[g + 1] - begin;
    if (count == 0) return;
    const auto part = [&](const auto& m) { return m.rows(begin, count); };
    cpu::multiply_group(x.in, g);
    evaluate(Cpu{1}, formula, part(x.product), part(x.gate()), part(x.up()));
    cpu::multiply_group(x.out, g);
  });
}

}  // namespace K3SPEC_NAMESPACE

#pragma once
// What the reference cases of both block drafts have in common.
#include <cmath>

#include <doctest/doctest.h>

#include <tests/parity/draft_model.hpp>
#include <tests/support/case_configs.hpp>
#include <tests/support/reference_case.hpp>
#include <k3spec/batches/block_batch.hpp>
#include <k3spec/config/block_drafts.hpp>

namespace k3spec::test {

/// Sizes that the odd set has other ones of.
template <class Cases>
struct BlockSizes {
  static constexpr index_t block_size = 5, num_draft_layers = 2, num_target_layers = 3, markov_rank = 8;
};
template <>
struct BlockSizes<OddCases> {
  static constexpr index_t block_size = 7, num_draft_layers = 3, num_target_layers = 2, markov_rank = 5;
};

template <class Cases, class Draft>
struct BlockCases : Draft {
  static constexpr index_t block_size = BlockSizes<Cases>::block_size;
  static constexpr index_t num_draft_layers = BlockSizes<Cases>::num_draft_layers;
  static constexpr index_t num_target_layers = BlockSizes<Cases>::num_target_layers;
  static constexpr std::optional<index_t> mask_token_id = Cases::vocab_size - 1;
};

template <class T>
Vector<const T> view(const std::vector<T>& v) {
  return Vector<const T>(v.data(), static_cast<index_t>(v.size()));
}

/// The inputs of a case, and a batch of them on a device.
template <class Draft, class T, class D>
struct BlockInputs {
  using S = accumulate_t<T>;
  using E = element_t<D, T>;
  ReferenceCase ref;
  std::vector<index_t> ids = ref.template values<index_t>("input.input_ids");
  std::vector<index_t> anchors = ref.template values<index_t>("input.anchors");
  std::vector<std::uint8_t> keep = ref.template values<std::uint8_t>("input.keep");
  std::vector<double> loss_weights = ref.template values<double>("input.loss_mask");
  std::vector<std::uint8_t> loss_mask = std::vector<std::uint8_t>(loss_weights.begin(), loss_weights.end());
  Mirror<T, D> target_hidden{ref.template values<T>("input.target_hidden")};
  index_t sequences = ref.shape("input.input_ids")[0], length = ref.shape("input.input_ids")[1];
  index_t blocks = ref.shape("input.anchors")[1];
  Mirror<S, D> d_target_hidden = empty<S, D>(sequences * length, Draft::target_width);
  Parameters<Draft, T> parameters;
  std::optional<DraftModel<Draft, T, D>> model;
  std::vector<index_t> prefix, start, remaining;

  explicit BlockInputs(const std::string& name) : ref(ReferenceCase::load(name)) {
    auto w = parameters.mutable_weights();
    ref.template fill<Draft>(w);
    model.emplace(parameters);
    if (ref.contains("input.prefix_lengths")) prefix = ref.template values<index_t>("input.prefix_lengths");
    if (!ref.contains("input.seq_lens")) return;
    start.resize(ids.size()), remaining.resize(ids.size());
    const auto lens = ref.template values<index_t>("input.seq_lens");
    const auto& shape = ref.shape("input.seq_lens");
    document_bounds(Matrix<const index_t>(lens.data(), shape[0], shape[1]), length,
                    Vector<index_t>(start.data(), sequences * length),
                    Vector<index_t>(remaining.data(), sequences * length));
  }

  BlockBatch<E, Draft::target_width> batch() {
    return {length,
            view(ids),
            view(loss_mask),
            rows_of<Draft::target_width>(target_hidden),
            view(anchors),
            view(keep),
            {view(start), view(remaining)},
            view(prefix)};
  }
  auto d_target() { return d_target_hidden.matrix(Draft::target_width); }
  static decltype(auto) device(int threads = 2) { return test::device<D>(threads); }
  double gamma() const {
    const auto config = ref.config();
    return config["gamma"].is_null() ? INFINITY : config["gamma"].template get<double>();
  }

  void compare_gradients(double tolerance) {
    Gradients<Draft, T> found;
    model->get(found);
    auto d_w = found.weights();
    ref.template compare_gradients<Draft>(d_w, tolerance);
    compare("grad.input.target_hidden", d_target(), tolerance);
  }
  /// Compares what a view of the device's holds.
  template <class V>
  void compare(const std::string& name, const V& v, double tolerance) {
    using U = value_t<std::remove_const_t<typename V::value_type>>;
    std::vector<U> values(static_cast<std::size_t>(v.size()));
    download<U>(device(), Vector<const element_t<D, U>>(v.data(), v.size()), Vector<U>(values.data(), v.size()));
    ref.compare(name, values.data(), v.size(), tolerance);
  }
};

/// A host's view's values as the case stores them.
template <class V>
void compare_view(ReferenceCase& ref, const std::string& name, const V& v, double tolerance) {
  ref.compare(name, v.data(), v.size(), tolerance);
}

}  // namespace k3spec::test

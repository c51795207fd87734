#pragma once
// What the reference cases of both block drafts have in common.
#include <cmath>

#include <doctest/doctest.h>

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

/// The inputs of a case, and a batch of them.
template <class Draft, class T>
struct BlockInputs {
  ReferenceCase ref;
  std::vector<index_t> ids = ref.template values<index_t>("input.input_ids");
  std::vector<index_t> anchors = ref.template values<index_t>("input.anchors");
  std::vector<std::uint8_t> keep = ref.template values<std::uint8_t>("input.keep");
  std::vector<double> loss_weights = ref.template values<double>("input.loss_mask");
  std::vector<std::uint8_t> loss_mask = std::vector<std::uint8_t>(loss_weights.begin(), loss_weights.end());
  std::vector<T> target_hidden = ref.template values<T>("input.target_hidden");
  std::vector<accumulate_t<T>> d_target_hidden = std::vector<accumulate_t<T>>(target_hidden.size(), NAN);
  index_t sequences = ref.shape("input.input_ids")[0], length = ref.shape("input.input_ids")[1];
  index_t blocks = ref.shape("input.anchors")[1];
  std::vector<index_t> prefix, start, remaining;

  explicit BlockInputs(const std::string& name) : ref(ReferenceCase::load(name)) {
    if (ref.contains("input.prefix_lengths")) prefix = ref.template values<index_t>("input.prefix_lengths");
    if (!ref.contains("input.seq_lens")) return;
    start.resize(ids.size()), remaining.resize(ids.size());
    const auto lens = ref.template values<index_t>("input.seq_lens");
    const auto& shape = ref.shape("input.seq_lens");
    document_bounds(Matrix<const index_t>(lens.data(), shape[0], shape[1]), length,
                    Vector<index_t>(start.data(), sequences * length),
                    Vector<index_t>(remaining.data(), sequences * length));
  }

  BlockBatch<T, Draft::target_width> batch() const {
    return {length,
            view(ids),
            view(loss_mask),
            Rows<const T, Draft::target_width>(target_hidden.data(), sequences * length),
            view(anchors),
            view(keep),
            {view(start), view(remaining)},
            view(prefix)};
  }
  Matrix<accumulate_t<T>> d_target() {
    return Matrix<accumulate_t<T>>(d_target_hidden.data(), sequences * length, Draft::target_width);
  }
  double gamma() const {
    const auto config = ref.config();
    return config["gamma"].is_null() ? INFINITY : config["gamma"].template get<double>();
  }
};

/// A view's values as the case stores them.
template <class V>
double compare_view(ReferenceCase& ref, const std::string& name, const V& v, double tolerance) {
  return ref.compare(name, v.data(), v.size(), tolerance);
}

}  // namespace k3spec::test

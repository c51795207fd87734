#pragma once
/// \file
/// Batches for the block objectives, and what comes of them: the same calls for DFlash and DSpark.
/// defines: test::blocks::DFlash, test::blocks::DSpark, test::blocks::Data, test::blocks::Part

#include <algorithm>
#include <cmath>
#include <vector>

#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_objective.hpp>

#include "tests/support/case_configs.hpp"

namespace k3spec::test::blocks {

template <class Preset>
struct Small : test::NoSpecialTokens<Preset> {
  static constexpr index_t vocab_size = 23;
  static constexpr index_t hidden_size = 9, target_hidden_size = 9, intermediate_size = 13;
  static constexpr std::optional<index_t> pad_token_id = 0, mask_token_id = 22;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 5;
  static constexpr index_t kv_lora_rank = 7, qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 6;
  static constexpr index_t num_draft_layers = 2, num_target_layers = 2, block_size = 3, markov_rank = 4;
};
struct Spark : Small<configs::KimiK3TinyDSpark> {
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::rnn;
  static constexpr bool train_embeddings = true;
};

/// What both drafts are given here: the same call for either.
struct DFlash {
  using Draft = DFlashDraft<Small<configs::KimiK3TinyDFlash>>;
  using Objective = DFlashObjective<Draft, double>;
  using Sums = Objective::Sums;
  template <index_t Rows>
  using Chunked = DFlashObjective<Draft, double, Rows>;
  using Batch = Objective::Batch;
  template <class O = Objective>
  static O make(const BlockSpan& s) {
    return {s.sequences, s.context, s.blocks, 4.0};
  }

  std::vector<double> embed = std::vector<double>(Draft::vocabulary * Draft::hidden), head = embed;
  DFlash() {
    for (std::size_t i = 0; i < embed.size(); ++i) embed[i] = Philox(1).normal(i), head[i] = Philox(2).normal(i) / 3;
  }
  Batch batch(const BlockBatch<double, Draft::target_width>& b, const double*) const { return b; }
  /// \param among  totals, or a communicator
  template <class O, class Among>
  Sums run(O& o, const Parameters<Draft, double>& w, const Draft::Weights<double>& d_w, const Batch& b, Among& among,
           const Matrix<double>& d_x) const {
    const DFlashTarget<double> target{Matrix<const double>(embed.data(), Draft::vocabulary, Draft::hidden),
                                      Matrix<const double>(head.data(), Draft::vocabulary, Draft::hidden)};
    return o.forward_backward(Cpu{2}, w.weights(), d_w, target, b, among, d_x);
  }
};
struct DSpark {
  using Draft = DSparkDraft<Spark>;
  using Objective = DSparkObjective<Draft, double>;
  using Sums = Objective::Sums;
  template <index_t Rows>
  using Chunked = DSparkObjective<Draft, double, Rows>;
  using Batch = Objective::Batch;
  template <class O = Objective>
  static O make(const BlockSpan& s) {
    return {s.sequences, s.context, s.blocks, DSparkOptions{}};
  }
  Batch batch(const BlockBatch<double, Draft::target_width>& b, const double* last) const {
    return {b, Rows<const double, Draft::hidden>(last, b.input_ids.extent(0))};
  }
  template <class O, class Among>
  static Sums run(O& o, const Parameters<Draft, double>& w, const Draft::Weights<double>& d_w, const Batch& b,
                  Among& among, const Matrix<double>& d_x) {
    return o.forward_backward(Cpu{2}, w.weights(), d_w, b, among, d_x);
  }
};

/// Text of `rows` positions with all that belongs to it, and the draft's parameters.
template <class Kind>
struct Data {
  using Draft = typename Kind::Draft;
  Kind kind;
  index_t rows;
  std::vector<index_t> ids, start, remaining;
  std::vector<std::uint8_t> loss_mask;
  std::vector<double> hidden, last;
  Parameters<Draft, double> parameters;

  explicit Data(index_t positions) : rows(positions) {
    parameters.initialize(3, 0.4);
    for (index_t r = 0; r < rows; ++r) {
      ids.push_back(static_cast<index_t>(Philox(5).below(static_cast<std::uint64_t>(r), 22)));
      loss_mask.push_back(r % 7 == 3 ? 0 : 1);
      for (index_t j = 0; j < Draft::target_width; ++j) hidden.push_back(normal(6, r, j));
      for (index_t j = 0; j < Draft::hidden; ++j) last.push_back(normal(7, r, j));
    }
  }
  static double normal(std::uint64_t seed, index_t r, index_t j) {
    return Philox(seed, static_cast<std::uint64_t>(r)).normal(static_cast<std::uint64_t>(j));
  }
};

/// A part of the data as a batch of its own, and what came of it.
template <class Kind, class Objective = typename Kind::Objective>
struct Part {
  using Draft = typename Kind::Draft;
  using Sums = typename Kind::Sums;
  Data<Kind>& data;
  index_t first;
  BlockSpan span;
  std::vector<index_t> anchors;
  std::vector<std::uint8_t> keep = std::vector<std::uint8_t>(anchors.size(), 1);
  bool packed = false;
  std::vector<index_t> prefixes{};
  Objective objective = Kind::template make<Objective>(span);
  Gradients<Draft, double> gradients{};
  std::vector<double> d_hidden =
      std::vector<double>(static_cast<std::size_t>(span.context_rows() * Draft::target_width));
  Sums sums{};

  typename Kind::Batch batch() {
    const index_t n = span.context_rows();
    BlockBatch<double, Draft::target_width> b{
        span.context,
        Vector<const index_t>(data.ids.data() + first, n),
        Vector<const std::uint8_t>(data.loss_mask.data() + first, n),
        Rows<const double, Draft::target_width>(data.hidden.data() + first * Draft::target_width, n),
        Vector<const index_t>(anchors.data(), static_cast<index_t>(anchors.size())),
        Vector<const std::uint8_t>(keep.data(), static_cast<index_t>(keep.size()))};
    if (packed)
      b.documents = {Vector<const index_t>(data.start.data(), n), Vector<const index_t>(data.remaining.data(), n)};
    b.prefix_lengths = Vector<const index_t>(prefixes.data(), static_cast<index_t>(prefixes.size()));
    return data.kind.batch(b, data.last.data() + first * Draft::hidden);
  }
  BlockTotals count() { return objective.count(batch()); }
  /// \param all  totals, or a communicator
  template <class Among>
  void among(Among& all) {
    const Matrix<double> d_x(d_hidden.data(), span.context_rows(), Draft::target_width);
    sums = data.kind.run(objective, data.parameters, gradients.weights(), batch(), all, d_x);
  }
  void run(const std::optional<BlockTotals>& total) { among(total); }
};

template <class T>
std::vector<T> joined(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> both(a);
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

inline double difference(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    error = std::max(error, std::abs(a[i] - b[i])), largest = std::max(largest, std::abs(b[i]));
  }
  return error / largest;
}

template <class G>
std::vector<double> values(G& gradients) {
  return std::vector<double>(gradients.flat().data(), gradients.flat().data() + gradients.flat().size());
}

/// How far the parts' gradients, added up, are from the whole's.
template <class Kind>
double parameter_difference(Part<Kind>& a, Part<Kind>& b, Part<Kind>& whole) {
  std::vector<double> sum = values(a.gradients), other = values(b.gradients);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  return difference(sum, values(whole.gradients));
}

}  // namespace k3spec::test::blocks

// Block objectives over ranks and over packed documents: the parts add up to the whole.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_objective.hpp>

#include "tests/support/case_configs.hpp"

using namespace k3spec;

namespace {

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
  template <class O>
  DFlashSums run(O& o, Parameters<Draft, double>& w, Draft::Weights<double>& d_w, const Batch& b,
                 const std::optional<BlockTotals>& total, const Matrix<double>& d_x) const {
    const DFlashTarget<double> target{Matrix<const double>(embed.data(), Draft::vocabulary, Draft::hidden),
                                      Matrix<const double>(head.data(), Draft::vocabulary, Draft::hidden)};
    return o.forward_backward(Cpu{2}, w.weights(), d_w, target, b, total, d_x);
  }
};
struct DSpark {
  using Draft = DSparkDraft<Spark>;
  using Objective = DSparkObjective<Draft, double>;
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
  template <class O>
  static Objective::Sums run(O& o, Parameters<Draft, double>& w, Draft::Weights<double>& d_w, const Batch& b,
                             const std::optional<BlockTotals>& total, const Matrix<double>& d_x) {
    return o.forward_backward(Cpu{2}, w.weights(), d_w, b, total, d_x);
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
  using Sums =
      decltype(Kind().run(std::declval<typename Kind::Objective&>(), std::declval<Parameters<Draft, double>&>(),
                          std::declval<typename Draft::template Weights<double>&>(),
                          std::declval<const typename Kind::Batch&>(), std::nullopt, Matrix<double>()));
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
  void run(const std::optional<BlockTotals>& total) {
    auto d_w = gradients.weights();
    const Matrix<double> d_x(d_hidden.data(), span.context_rows(), Draft::target_width);
    sums = data.kind.run(objective, data.parameters, d_w, batch(), total, d_x);
  }
};

template <class T>
std::vector<T> joined(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> both(a);
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

double difference(const std::vector<double>& a, const std::vector<double>& b) {
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

/// Two parts, divided by what both of them weigh, are the whole. Sums of some hundred terms near 1 in another order.
template <class Kind>
void add_up(Part<Kind>& a, Part<Kind>& b, Part<Kind>& whole) {
  constexpr double rounding = 1e-12;
  BlockTotals total = a.count();
  total += b.count();
  CHECK(total.weight == doctest::Approx(whole.count().weight).epsilon(rounding));
  CHECK(a.count().weight > 0);
  CHECK(b.count().weight > 0);
  a.run(total), b.run(total), whole.run(std::nullopt);
  CHECK(parameter_difference(a, b, whole) < rounding);
  CHECK(difference(joined(a.d_hidden, b.d_hidden), whole.d_hidden) < rounding);
  auto both = a.sums;
  both += b.sums;
  CHECK(both.mean_loss() == doctest::Approx(whole.sums.mean_loss()).epsilon(rounding));
  CHECK(both.loss.denominator == doctest::Approx(whole.sums.loss.denominator).epsilon(rounding));
  if constexpr (std::is_same_v<Kind, DFlash>) {
    both.loss = whole.sums.loss;
    CHECK(both == whole.sums);
  } else {
    CHECK(both.accept_length.denominator == whole.sums.accept_length.denominator);
    CHECK(both.accept_length.value() == doctest::Approx(whole.sums.accept_length.value()).epsilon(rounding));
    CHECK(both.confidence_prefix_bias.value() ==
          doctest::Approx(whole.sums.confidence_prefix_bias.value()).epsilon(rounding));
  }
}

template <class Kind>
void ranks() {
  Data<Kind> data(33);
  Part<Kind> a{data, 0, {2, 11, 2, 3}, {1, 5, 2, 0}}, b{data, 22, {1, 11, 2, 3}, {3, 7}},
      whole{data, 0, {3, 11, 2, 3}, {1, 5, 2, 0, 3, 7}};
  a.keep[3] = whole.keep[3] = 0;
  if constexpr (std::is_same_v<Kind, DFlash>) {
    a.prefixes = {1, 2, 2, 1}, b.prefixes = {2, 1}, whole.prefixes = joined(a.prefixes, b.prefixes);
  }
  add_up(a, b, whole);
  // A batch that supervises nothing adds nothing.
  Part<Kind> none{data, 22, {1, 11, 2, 3}, {3, 7}};
  none.keep = {0, 0};
  CHECK(none.count().weight == 0);
  none.run(whole.count());
  const auto all = values(none.gradients);
  CHECK(std::all_of(all.begin(), all.end(), [](double x) { return x == 0; }));
  CHECK(std::all_of(none.d_hidden.begin(), none.d_hidden.end(), [](double x) { return x == 0; }));
  CHECK_THROWS_WITH_AS(b.run(none.count()), doctest::Contains("totals: weight: found 0.000000, wanted at least"),
                       Error);
  // Each by its own weight, the mean of the means is another gradient.
  Part<Kind> own_a{data, 0, {2, 11, 2, 3}, {1, 5, 2, 0}}, own_b{data, 22, {1, 11, 2, 3}, {3, 7}};
  own_a.keep = a.keep, own_a.prefixes = a.prefixes, own_b.prefixes = b.prefixes;
  own_a.run(BlockTotals{2 * own_a.count().weight}), own_b.run(BlockTotals{2 * own_b.count().weight});
  CHECK(parameter_difference(own_a, own_b, whole) > 1e-3);
}

template <class Kind>
void documents() {
  Data<Kind> data(18);
  data.start.resize(18), data.remaining.resize(18);
  const std::vector<index_t> lens{8, 10};
  document_bounds(Matrix<const index_t>(lens.data(), 1, 2), 18, Vector<index_t>(data.start.data(), 18),
                  Vector<index_t>(data.remaining.data(), 18));
  // The first document's last block, at 6, ends in the second one's tokens.
  Part<Kind> a{data, 0, {1, 8, 2, 3}, {1, 6}}, b{data, 8, {1, 10, 2, 3}, {1, 5}},
      whole{data, 0, {1, 18, 4, 3}, {1, 6, 9, 13}};
  whole.packed = true;
  add_up(a, b, whole);
  whole.packed = false;
  whole.gradients.zero();
  whole.run(std::nullopt);
  CHECK(parameter_difference(a, b, whole) > 1e-3);
}

template <class Kind, index_t Rows>
void chunked(Part<Kind>& whole) {
  Part<Kind, typename Kind::template Chunked<Rows>> parts{whole.data, whole.first, whole.span, whole.anchors};
  parts.run(std::nullopt);
  CHECK(parts.sums == whole.sums);
  CHECK(values(parts.gradients) == values(whole.gradients));
  CHECK(parts.d_hidden == whole.d_hidden);
}

template <class Kind>
void chunks() {
  Data<Kind> data(33);
  Part<Kind> whole{data, 0, {3, 11, 2, 3}, {1, 5, 2, 0, 3, 7}};
  whole.run(std::nullopt);
  chunked<Kind, 1>(whole);
  chunked<Kind, 5>(whole);
}

}  // namespace

TEST_CASE_TEMPLATE("how many rows go through the vocabulary at a time changes no bit", Kind, DFlash, DSpark) {
  chunks<Kind>();
}

TEST_CASE_TEMPLATE("ranks that divide by the weight of all add up to the whole batch", Kind, DFlash, DSpark) {
  ranks<Kind>();
}

TEST_CASE_TEMPLATE("documents packed into a row are the documents apart", Kind, DFlash, DSpark) { documents<Kind>(); }

TEST_CASE("DSpark: the gradient of the confidence loss is weighed as the options say") {
  Data<DSpark> data(33);
  const auto gradient = [&](double weight) {
    Part<DSpark> part{.data = data,
                      .first = 0,
                      .span = {3, 11, 2, 3},
                      .anchors = {1, 5, 2, 0, 3, 7},
                      .objective = DSpark::Objective(3, 11, 2, DSparkOptions{.confidence_alpha = weight})};
    part.run(std::nullopt);
    return values(part.gradients);
  };
  const auto without = gradient(0), half = gradient(0.5), whole = gradient(1);
  CHECK(whole != without);
  for (std::size_t i = 0; i < half.size(); ++i) {
    CHECK(half[i] - without[i] == doctest::Approx((whole[i] - without[i]) / 2).epsilon(1e-9).scale(1e-3));
  }
}

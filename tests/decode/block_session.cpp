// A session of a block draft gives what the draft gives in training for the same context.
#include <doctest/doctest.h>

#include "tests/backend/allocations.hpp"
#include "tests/decode/block_drafts.hpp"
#include "tests/support/case_configs.hpp"
#include "tests/support/same_bits.hpp"

using namespace k3spec;
using namespace k3spec::test;

namespace {

/// What a session asks of a target.
template <class T>
struct FakeTarget {
  static T number(double x) { return static_cast<T>(static_cast<accumulate_t<T>>(x)); }
  std::vector<T> table = std::vector<T>(Small::vocab_size * Small::hidden_size);
  PrepackedLinear<T> linear;

  FakeTarget() {
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = number(0.5 * Philox(3).normal(i));
    linear = PrepackedLinear<T>{Cpu{}, {embedding()}};
  }
  Matrix<const T> embedding() const { return {table.data(), Extents<dyn, dyn>(Small::vocab_size, Small::hidden_size)}; }
  const PrepackedLinear<T>& head() const { return linear; }
};

template <class Draft, class T>
struct Setting {
  FakeTarget<T> target;
  Parameters<Draft, T> parameters;
  std::vector<T> states = std::vector<T>(static_cast<std::size_t>(40 * Draft::target_width));

  Setting() {
    parameters.initialize(7, 0.3);
    for (std::size_t i = 0; i < states.size(); ++i) states[i] = target.number(Philox(11).normal(i));
  }
  BlockSession<Draft, T> session(index_t chain, double min_confidence = 0) const {
    return {target, {parameters.weights()}, {30, 20, chain, true, min_confidence}};
  }
  static index_t id(index_t position) { return (position * position + 3) % (Small::vocab_size - 1); }
  /// Positions [begin, begin + n), the tokens one later.
  void append(BlockSession<Draft, T>& session, index_t begin, index_t n, int threads = 1) const {
    std::vector<index_t> ids;
    for (index_t i = 0; i < n; ++i) ids.push_back(id(begin + i + 1));
    session.append(Cpu{threads}, Matrix<const T>(states.data() + begin * Draft::target_width, n, Draft::target_width),
                   ids);
  }

  /// Logits of `drafted` behind the token at `position`, as in training: a block at `anchor` in a context that goes on
  /// behind it. Right when both are the same.
  std::vector<double> training_form(index_t position, index_t anchor, std::span<const index_t> drafted) const {
    constexpr bool spark = Draft::kind == DraftKind::dspark;
    const auto count = static_cast<index_t>(drafted.size()), slots = count + (spark ? 0 : 1), context = anchor + 3;
    const auto w = parameters.weights();
    using Backbone = typename Draft::Backbone;
    Arena arena(1 << 22);
    const auto acts = Backbone::template Activations<T>::allocate(arena, context, slots);
    std::vector<index_t> ids(static_cast<std::size_t>(slots), Small::vocab_size - 1);
    ids[0] = id(position);
    Rows<T, Draft::hidden> noise;
    take_rows(arena, slots, noise);
    const auto table = [&] {
      if constexpr (spark) return Matrix<const T>(w.embed_tokens);
      if constexpr (!spark) return target.embedding();
    };
    embedding_forward<T>(Cpu{}, Vector<const index_t>(ids.data(), slots), table(), noise);
    using Config = typename Draft::config;
    const BlockVisibility visible{&anchor, nullptr, nullptr, Config::sliding_window, Config::block_causal};
    Backbone::template forward<T>(
        Cpu{}, Draft::backbone(w),
        typename Backbone::template Inputs<T, BlockVisibility>{
            Rows<const T, Draft::target_width>(states.data(), context), noise, {1, context, 1, slots}, visible},
        acts);
    Rows<accumulate_t<T>, Small::vocab_size> logits;
    take_rows(arena, count, logits);
    const auto out = acts.out.rows(slots - count, count);
    if constexpr (spark) {
      Draft::Head::forward(Cpu{}, w.lm_head, out, logits);
      if constexpr (Draft::has_markov) {
        std::vector<index_t> previous{id(position)};
        previous.insert(previous.end(), drafted.begin(), drafted.end() - 1);
        using Markov = typename Draft::Markov;
        const auto saved = Markov::template Saved<T>::allocate(arena, count);
        Markov::template forward<T>(Cpu{}, w.markov_head, Vector<const index_t>(previous.data(), count), out, count,
                                    saved);
        Markov::add_logits(Cpu{}, w.markov_head, saved.latent, logits);
      }
    } else {
      target.head().forward(Cpu{}, out, logits);
    }
    return {logits.data(), logits.data() + logits.size()};
  }
};

/// Largest difference of a proposal's weights' logarithms from logits, the largest of each row being 0.
template <class S>
double difference(const Proposal<S>& proposal, std::vector<double> logits) {
  double worst = 0;
  for (index_t k = 0; k < proposal.size(); ++k) {
    const double* row = logits.data() + k * Small::vocab_size;
    const double most = *std::max_element(row, row + Small::vocab_size);
    for (index_t j = 0; j < Small::vocab_size; ++j) {
      const double e = std::abs(std::log(static_cast<double>(proposal.weights(k, j))) - (row[j] - most));
      worst = std::isnan(e) ? e : std::max(worst, e);
    }
  }
  return worst;
}

template <class T, class Draft>
void check_against_training(const char* name, double tolerance) {
  const Setting<Draft, T> setting;
  // Each drafts more than the last, so that what it leaves behind its context would be found.
  for (const index_t chain : {1, 3, 9}) {
    auto session = setting.session(chain);
    index_t length = 0;
    for (const index_t n : {1, 1, 4, 9, 2}) {
      setting.append(session, length, n);
      length += n;
      const auto proposal = session.draft(Cpu{}, chain, {1, 5});
      CHECK(proposal.size() == chain);
      const double e = difference(proposal, setting.training_form(length, length, proposal.tokens));
      CHECK_MESSAGE(e < tolerance, name, ": ", e, " after ", length, " positions, chain ", chain);
      // The test sees a context that is one position too short or too long.
      for (const index_t off : {-1, 1}) {
        CHECK(difference(proposal, setting.training_form(length, length + off, proposal.tokens)) > 10 * tolerance);
      }
    }
  }
}

struct Maskless : DFlashOf<Small> {
  static constexpr std::optional<index_t> mask_token_id = std::nullopt;
};

}  // namespace

TEST_CASE("a block session's logits are those of the training form") {
  for_each_draft<Small>([](const char* name, auto draft) {
    using Draft = typename decltype(draft)::type;
    check_against_training<double, Draft>(name, 1e-10);
    check_against_training<float, Draft>(name, 1e-4);
  });
}

TEST_CASE("a block session in bfloat16") {
  const auto check = [](auto draft) {
    const Setting<typename decltype(draft)::type, bfloat16> setting;
    auto session = setting.session(3);
    setting.append(session, 0, 9);
    const auto proposal = session.draft(Cpu{}, 3, {1, 5});
    const auto logits = setting.training_form(9, 9, proposal.tokens);
    const auto [least, most] = std::minmax_element(logits.begin(), logits.end());
    const double tolerance = parity_tolerance<bfloat16> * (*most - *least);
    CHECK(difference(proposal, logits) < tolerance);
    CHECK(difference(proposal, setting.training_form(9, 2, proposal.tokens)) > tolerance);
  };
  check(std::type_identity<DFlashDraft<DFlashOf<Small>>>{});
  check(std::type_identity<DSparkDraft<DSparkOf<Small, MarkovHeadType::rnn>>>{});
}

TEST_CASE("a block's bits do not depend on chunks, threads, or blocks drafted before") {
  for_each_draft<Small>([](const char* name, auto draft) {
    using Draft = typename decltype(draft)::type;
    const Setting<Draft, float> setting;
    const auto weights = [](const Proposal<float>& p) {
      return std::vector<float>(p.weights.data(), p.weights.data() + p.weights.size());
    };
    auto whole = setting.session(6), pieces = setting.session(6);
    setting.append(whole, 0, 17);
    for (const index_t n : {5, 1, 8, 3}) {
      setting.append(pieces, pieces.length(), n, 2);
      pieces.draft(Cpu{2}, 6, {1, static_cast<std::uint64_t>(n)});
    }
    const auto wanted = weights(whole.draft(Cpu{1}, 6, {1, 9}));
    CHECK_MESSAGE(same_bits(weights(pieces.draft(Cpu{2}, 6, {1, 9})), wanted), name);
    CHECK_MESSAGE(same_bits(weights(pieces.draft(Cpu{1}, 6, {1, 9})), wanted), name);
    // A session that has had another sequence.
    pieces.reset();
    CHECK(pieces.length() == 0);
    setting.append(pieces, 0, 17);
    CHECK_MESSAGE(same_bits(weights(pieces.draft(Cpu{1}, 6, {1, 9})), wanted), name);
  });
}

TEST_CASE("a session drafts no more than it is sure of, and the same as without a threshold") {
  using Draft = DSparkDraft<DSparkOf<Small>>;
  const Setting<Draft, float> setting;
  auto all = setting.session(6);
  std::vector<index_t> lengths;
  for (const double least : {0.001, 0.4, 0.5, 0.6, 0.999}) {
    auto some = setting.session(6, least);
    all.reset();
    index_t drafted = 0;
    for (index_t n = 1; n <= 20; ++n) {
      setting.append(all, n - 1, 1), setting.append(some, n - 1, 1);
      const auto wanted = all.draft(Cpu{}, 6, {}).tokens;
      const auto found = some.draft(Cpu{}, 6, {}).tokens;
      CHECK(std::equal(found.begin(), found.end(), wanted.begin()));
      drafted += static_cast<index_t>(found.size());
    }
    lengths.push_back(drafted);
  }
  CHECK(lengths.front() == 120);
  CHECK(lengths.back() == 0);
  CHECK(std::is_sorted(lengths.rbegin(), lengths.rend()));
  CHECK(lengths[2] > 0);
  CHECK(lengths[2] < 120);
}

TEST_CASE("confidence is that of the training form: sigmoid of w [h | W1 prev] + b") {
  using Draft = DSparkDraft<DSparkOf<Small>>;
  Setting<Draft, float> setting;
  // Nothing but the bias: 0.7310586.
  auto w = setting.parameters.mutable_weights();
  std::fill_n(w.confidence_head.proj.weight.data(), w.confidence_head.proj.weight.size(), 0.0F);
  w.confidence_head.proj.bias(0) = 1;
  for (const auto& [least, wanted] : {std::pair{0.731, 1}, std::pair{0.7311, 0}}) {
    auto session = setting.session(6, least);
    setting.append(session, 0, 4);
    CHECK(session.draft(Cpu{}, 6, {}).size() == wanted);
  }
  // Nothing but the previous token's row of W1, which W2 hides from the logits: a block ends behind the token whose row
  // says so.
  w.confidence_head.proj.bias(0) = 0;
  std::fill_n(w.confidence_head.proj.weight.data() + Small::hidden_size, 6, 1.0F);
  std::fill_n(w.markov_head.markov_w2.weight.data(), w.markov_head.markov_w2.weight.size(), 0.0F);
  std::fill_n(w.markov_head.markov_w1.data(), w.markov_head.markov_w1.size(), 1.0F);
  const auto draft = [&] {
    auto session = setting.session(6, 0.5);
    setting.append(session, 0, 4);
    const auto tokens = session.draft(Cpu{}, 6, {}).tokens;
    return std::vector<index_t>(tokens.begin(), tokens.end());
  };
  const auto drafted = draft();
  CHECK(drafted.size() == 6);
  const index_t anchor = Setting<Draft, float>::id(4);
  std::fill_n(w.markov_head.markov_w1.row(drafted[0]), 6, -1.0F);
  CHECK(draft().size() == (drafted[0] == anchor ? 0 : 1));
  std::fill_n(w.markov_head.markov_w1.row(anchor), 6, -1.0F);
  CHECK(draft().empty());
}

TEST_CASE("a block ends where the product of its confidences, each given the ones before, falls too low") {
  using Draft = DSparkDraft<DSparkOf<Small>>;
  Setting<Draft, float> setting;
  auto w = setting.parameters.mutable_weights();
  std::fill_n(w.confidence_head.proj.weight.data(), w.confidence_head.proj.weight.size(), 0.0F);
  const auto length = [&](double confidence, double least) {
    w.confidence_head.proj.bias(0) = static_cast<float>(std::log(confidence / (1 - confidence)));
    auto session = setting.session(6, least);
    setting.append(session, 0, 4);
    // A second block begins anew.
    const auto first = session.draft(Cpu{}, 6, {}).size(), second = session.draft(Cpu{}, 6, {}).size();
    CHECK(first == second);
    return first;
  };
  CHECK(length(0.9, 0.8) == 2);  // 0.9, 0.81, 0.729
  CHECK(length(0.9, 0.82) == 1);
  CHECK(length(0.9, 0.728) == 3);
  CHECK(length(0.9, 0.91) == 0);
  CHECK(length(0.9, 0.53) == 6);  // 0.531
  CHECK(length(0.9, 0.54) == 5);
  CHECK(length(0.99, 0.95) == 5);  // 0.951, 0.941
  CHECK(length(0.5, 0.2) == 2);
  // Different ones: σ(6) behind tokens whose row of W1 is 1, σ(0) behind that whose row is 0.
  w.confidence_head.proj.bias(0) = 0;
  std::fill_n(w.confidence_head.proj.weight.data() + Small::hidden_size, 6, 1.0F);
  std::fill_n(w.markov_head.markov_w2.weight.data(), w.markov_head.markov_w2.weight.size(), 0.0F);
  std::fill_n(w.markov_head.markov_w1.data(), w.markov_head.markov_w1.size(), 1.0F);
  std::fill_n(w.markov_head.markov_w1.row(Setting<Draft, float>::id(4)), 6, 0.0F);
  const auto behind_doubt = [&](double least) {
    auto session = setting.session(6, least);
    setting.append(session, 0, 4);
    return session.draft(Cpu{}, 6, {}).size();
  };
  CHECK(behind_doubt(0.51) == 0);
  CHECK(behind_doubt(0.499) == 1);  // 0.5, 0.49876, of which the second alone would be 0.9975
}

TEST_CASE("a block session refuses what was not planned for") {
  using Draft = DSparkDraft<DSparkOf<Small>>;
  const Setting<Draft, float> setting;
  using Session = BlockSession<Draft, float>;
  const auto make = [&](SessionSize size) { return Session(setting.target, {setting.parameters.weights()}, size); };
  CHECK_THROWS_WITH_AS(make({30, 20, 0}), "chain: found 0, wanted 1 to 256", Error);
  CHECK_THROWS_WITH_AS(make({30, 20, 257}), "chain: found 257, wanted 1 to 256", Error);
  Session session = make({10, 4, 3});
  const std::vector<float> states(5 * Draft::target_width);
  std::vector<index_t> ids(5, 7);
  const auto append = [&](index_t rows, index_t columns, std::size_t n) {
    session.append(Cpu{}, Matrix<const float>(states.data(), rows, columns), std::span(ids).first(n));
  };
  CHECK_THROWS_WITH_AS(session.draft(Cpu{}, 1, {}), "draft cache: positions: found 0, wanted at least 1", Error);
  CHECK_THROWS_WITH_AS(append(5, 48, 5), "draft cache: rows: found 5, wanted 1 to 4", Error);
  CHECK_THROWS_WITH_AS(append(0, 48, 0), "draft cache: rows: found 0, wanted 1 to 4", Error);
  CHECK_THROWS_WITH_AS(append(2, 47, 2), "draft cache: states: found 2 x 47, wanted 2 x 48, packed", Error);
  ids[1] = 12;
  CHECK_THROWS_WITH_AS(append(2, 48, 2), "token id at row 1: found 12, wanted 0 to 11", Error);
  ids[1] = 7;
  append(4, 48, 4), append(4, 48, 4);
  CHECK_THROWS_WITH_AS(append(4, 48, 4), "draft cache: positions: found 12, wanted at most 10", Error);
  append(2, 48, 2);
  CHECK_THROWS_WITH_AS(session.draft(Cpu{}, 4, {}), "chain: found 4, wanted 0 to 3", Error);
  CHECK_THROWS_WITH_AS(session.draft(Cpu{}, 2, {0.5, 0}), "draft: temperature: found 0.5, wanted 0, as planned", Error);
  CHECK(session.draft(Cpu{}, 3, {}).size() == 3);
  CHECK(session.draft(Cpu{}, 0, {}).size() == 0);
  typename Session::Conventions other;
  other.aux_stream = AuxStream::residual_mixture, other.layer_ids = LayerIds::layers_executed;
  CHECK(Session::taps(std::array<index_t, 3>{0, 2, 4}, 4, other) ==
        std::vector<Tap>{{Tap::What::embedding}, {Tap::What::residual_mixture, 1}, {Tap::What::post_norm}});
  CHECK_THROWS_WITH_AS(Session::taps(std::array<index_t, 2>{0, 1}, 4, {}), "target layers: found 2, wanted 3", Error);
  CHECK_THROWS_WITH_AS(Session::taps(std::array<index_t, 3>{0, 1, 4}, 4, {}),
                       "target layer id: found 4, wanted -1 to 3, counted as after_layer_0", Error);

  using Unsure = DSparkDraft<UnsureDSpark<Small>>;
  const char* no_head = "min_confidence: found 0.5, wanted 0: this draft has no confidence head";
  CHECK_THROWS_WITH_AS((Setting<Unsure, float>{}.session(3, 0.5)), no_head, Error);
  using Flash = DFlashDraft<DFlashOf<Small>>;
  CHECK_THROWS_WITH_AS((Setting<Flash, float>{}.session(3, 0.5)), no_head, Error);
  CHECK_THROWS_WITH_AS((Setting<DFlashDraft<Maskless>, float>{}.session(3)),
                       "mask_token_id: found nothing, wanted a token: the target has none, so each draft picks one",
                       Error);
}

TEST_CASE("a round with a block draft allocates nothing") {
  for_each_draft<Small>([](const char* name, auto draft) {
    using Draft = typename decltype(draft)::type;
    const Setting<Draft, float> setting;
    auto session = setting.session(5);
    const std::vector<index_t> ids(20, 3);
    const auto round = [&](index_t n, index_t count, const Sampling& sampling) {
      session.append(Cpu{1}, Matrix<const float>(setting.states.data(), n, Draft::target_width),
                     std::span(ids).first(static_cast<std::size_t>(n)));
      return session.draft(Cpu{1}, count, sampling).size();
    };
    round(8, 5, {});
    const auto before = allocations();
    round(3, 5, {1, 5}), round(1, 2, {}), round(8, 5, {1, 6});
    CHECK_MESSAGE(allocations() == before, name);
  });
}

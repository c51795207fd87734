// The laws of the DFlash and DSpark objectives, drafts included.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include <tests/laws/check_laws.hpp>
#include <tests/support/case_configs.hpp>
#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_objective.hpp>

using namespace k3spec;
using laws::Gradient;
using laws::Input;
using laws::Shape;

namespace {

constexpr index_t blocks = 2;

template <class Preset>
struct Small : test::NoSpecialTokens<Preset> {
  static constexpr index_t vocab_size = 23;
  static constexpr index_t hidden_size = 9, target_hidden_size = 9, intermediate_size = 13;
  static constexpr std::optional<index_t> mask_token_id = 22;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 5;
  static constexpr index_t kv_lora_rank = 7, qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 6;
  static constexpr index_t num_draft_layers = 1, num_target_layers = 2, block_size = 3, markov_rank = 4;
  static constexpr bool block_causal = false;
  static constexpr std::optional<index_t> sliding_window = std::nullopt;
};
using SmallDFlash = DFlashDraft<Small<configs::KimiK3TinyDFlash>>;
struct RnnConfig : Small<configs::KimiK3TinyDSpark> {
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::rnn;
};
using SmallDSpark = DSparkDraft<RnnConfig>;

/// Causal blocks and a window that the last slot's context does not fill.
template <class Base>
struct Narrow : Base {
  static constexpr bool block_causal = true;
  static constexpr std::optional<index_t> sliding_window = 3;
};

/// A packed matrix with its width known again.
template <index_t Width, class T>
Rows<T, Width> rows_of(const Matrix<T>& m) {
  return Rows<T, Width>(m.data(), m.extent(0));
}

/// Masks, anchors and documents for any shape: every fifth position is not supervised, the second block of every third
/// sequence is dropped, and a sequence is two documents of about a third and the rest.
struct Blocks {
  std::vector<std::uint8_t> loss_mask, keep;
  std::vector<index_t> anchors, start, remaining;

  explicit Blocks(Shape shape) {
    const index_t third = (shape.length + 2) / 3;
    for (index_t r = 0; r < shape.rows(); ++r) {
      const index_t t = r % shape.length;
      loss_mask.push_back(r % 5 != 4 ? 1 : 0);
      start.push_back(t < third ? 0 : third);
      remaining.push_back((t < third ? third : shape.length) - 1 - t);
    }
    for (index_t s = 0; s < shape.sequences; ++s) {
      anchors.push_back(0), keep.push_back(1);
      anchors.push_back(shape.length / 2), keep.push_back(s % 3 == 2 ? 0 : 1);
    }
  }

  template <class T, index_t Width, class C>
  BlockBatch<T, Width> batch(const C& c) const {
    const index_t rows = c.shape.rows(), n = c.shape.sequences * blocks;
    return {c.shape.length,
            c.ids,
            Vector<const std::uint8_t>(loss_mask.data(), rows),
            rows_of<Width>(c.x[0]),
            Vector<const index_t>(anchors.data(), n),
            Vector<const std::uint8_t>(keep.data(), n),
            {Vector<const index_t>(start.data(), rows), Vector<const index_t>(remaining.data(), rows)}};
  }
};

template <class Objective>
struct BlockFixture : Blocks {
  std::unique_ptr<Objective> objective;
  template <class Options>
  BlockFixture(Shape shape, const Options& options)
      : Blocks(shape), objective(new Objective(shape.sequences, shape.length, blocks, options)) {}
};

/// target_hidden and the target's embedding and head, each an input in its first rows -> the loss.
template <class Draft>
struct DFlashLawOf : laws::Defaults {
  using Layer = Draft;
  static constexpr std::array inputs{Input{Layer::target_width}};
  static constexpr index_t output = 1, vocabulary = Layer::vocabulary;
  static constexpr bool scalar = true;

  template <class T>
  struct Fixture : BlockFixture<DFlashObjective<Layer, T>> {
    std::vector<T> embed, head;
    explicit Fixture(Shape shape) : BlockFixture<DFlashObjective<Layer, T>>(shape, 4.0) {
      for (index_t i = 0; i < Layer::vocabulary * Layer::hidden; ++i) {
        embed.push_back(T(static_cast<accumulate_t<T>>(laws::draw(90, 0, i))));
        head.push_back(T(static_cast<accumulate_t<T>>(laws::bfloat16_value(laws::draw(91, 0, i) / 3))));
      }
    }
    DFlashTarget<T> target() const {
      return {Matrix<const T>(embed.data(), Layer::vocabulary, Layer::hidden),
              Matrix<const T>(head.data(), Layer::vocabulary, Layer::hidden)};
    }
  };
  template <class T>
  static void forward(const laws::Call<DFlashLawOf, T>& c) {
    std::fill_n(c.y.data(), c.y.size(), T(0.0f));
    const auto sums = c.fixture.objective->evaluate_only(c.device, c.w, c.fixture.target(),
                                                         c.fixture.template batch<T, Layer::target_width>(c));
    c.y(0, 0) = T(static_cast<accumulate_t<T>>(sums.mean_loss()));
  }
  template <class T>
  static void backward(const laws::Call<DFlashLawOf, T>& c, const laws::Back<DFlashLawOf, T>& b) {
    c.fixture.objective->forward_backward(c.device, c.w, b.d_w, c.fixture.target(),
                                          c.fixture.template batch<T, Layer::target_width>(c), std::nullopt, b.d_x[0]);
  }
};
using DFlashLaw = DFlashLawOf<SmallDFlash>;

/// target_hidden and the target's last hidden state -> cross-entropy and distance. The confidence head's loss holds the
/// acceptance constant, so that its gradient is no slope: the reference cases have it.
template <class Draft>
struct DSparkLawOf : laws::Defaults {
  using Layer = Draft;
  static constexpr std::array inputs{Input{Layer::target_width}, Input{Layer::hidden, Gradient::none}};
  static constexpr index_t output = 1, vocabulary = Layer::vocabulary;
  static constexpr bool scalar = true;

  template <class T>
  struct Fixture : BlockFixture<DSparkObjective<Layer, T>> {
    explicit Fixture(Shape shape)
        : BlockFixture<DSparkObjective<Layer, T>>(shape, DSparkOptions{.gamma = 4.0, .confidence_alpha = 0}) {}
  };
  template <class T>
  static typename DSparkObjective<Layer, T>::Batch batch(const laws::Call<DSparkLawOf, T>& c) {
    return {c.fixture.template batch<T, Layer::target_width>(c), rows_of<Layer::hidden>(c.x[1])};
  }
  template <class T>
  static void forward(const laws::Call<DSparkLawOf, T>& c) {
    std::fill_n(c.y.data(), c.y.size(), T(0.0f));
    const auto sums = c.fixture.objective->evaluate_only(c.device, c.w, batch(c));
    c.y(0, 0) = T(static_cast<accumulate_t<T>>(sums.mean_loss()));
  }
  template <class T>
  static void backward(const laws::Call<DSparkLawOf, T>& c, const laws::Back<DSparkLawOf, T>& b) {
    c.fixture.objective->forward_backward(c.device, c.w, b.d_w, batch(c), std::nullopt, b.d_x[0]);
  }
};
using DSparkLaw = DSparkLawOf<SmallDSpark>;

/// An objective's operands that a test may change before it runs.
template <class Law>
struct Trial : laws::Trial<Law, double> {
  using laws::Trial<Law, double>::Trial;

  auto run() {
    const auto c = this->call(1);
    Law::backward(c, this->back());
    this->fetch_gradients();
    if constexpr (std::is_same_v<Law, DSparkLaw>) {
      return this->fixture().objective->evaluate_only(c.device, c.w, Law::batch(c));
    } else {
      return this->fixture().objective->evaluate_only(c.device, c.w, c.fixture.target(),
                                                      c.fixture.template batch<double, Law::Layer::target_width>(c));
    }
  }
  bool gradients_are_zero() {
    for (const auto& t : this->tensors()) {
      for (index_t i = 0; i < t.size; ++i) {
        if (t.gradient[i] != 0) return false;
      }
    }
    return true;
  }
};

template <class Law>
void nothing_supervised() {
  Trial<Law> masked({3, 7}), dropped({3, 7});
  std::fill(masked.fixture().loss_mask.begin(), masked.fixture().loss_mask.end(), std::uint8_t{0});
  std::fill(dropped.fixture().keep.begin(), dropped.fixture().keep.end(), std::uint8_t{0});
  for (auto* trial : {&masked, &dropped}) {
    const auto sums = trial->run();
    CHECK(sums == decltype(sums){});
    CHECK(sums.mean_loss() == 0);
    CHECK(trial->gradients_are_zero());
  }
}

template <class Law>
void remembers_nothing() {
  Trial<Law> fresh({3, 7}, 5), used({3, 7}, 5), other({3, 7});
  // The batch before supervises slots that this one does not, and none of its numbers is one.
  std::fill(other.fixture().loss_mask.begin(), other.fixture().loss_mask.end(), std::uint8_t{1});
  std::fill(other.fixture().keep.begin(), other.fixture().keep.end(), std::uint8_t{1});
  for (auto& x : other.x) std::fill(x.begin(), x.end(), NAN);
  std::swap(other.fixture().objective, used.fixture().objective);
  other.run();
  std::swap(other.fixture().objective, used.fixture().objective);
  CHECK(fresh.run() == used.run());
  CHECK(laws::compare_bits(used.results(), fresh.results(), "after another batch") == "");
  const auto& objective = *used.fixture().objective;
  CHECK(objective.peak_bytes() == objective.bytes(objective.span()));
}

}  // namespace

TEST_CASE("laws: the DFlash objective") { laws::check<DFlashLaw>({{1, 3}, {4, 7}, {1, 12}}); }

TEST_CASE("laws: the DSpark objective") { laws::check<DSparkLaw>({{1, 3}, {4, 7}, {1, 12}}); }

TEST_CASE("laws: both objectives with causal blocks and a window") {
  const auto check = []<class Law>(Law) {
    for (const laws::Shape shape : {laws::Shape{1, 3}, laws::Shape{4, 7}}) {
      laws::hold<Law>("gradients are slopes", shape, laws::gradients_are_slopes<Law, Cpu>(shape));
      laws::check_bits<Law, double, Cpu>(shape);
    }
  };
  check(DFlashLawOf<DFlashDraft<Narrow<Small<configs::KimiK3TinyDFlash>>>>{});
  check(DSparkLawOf<DSparkDraft<Narrow<RnnConfig>>>{});
}

TEST_CASE("block objectives: nothing supervised gives loss 0 and gradients 0, not NaN") {
  nothing_supervised<DFlashLaw>();
  nothing_supervised<DSparkLaw>();
}

TEST_CASE("block objectives remember nothing of the batch before, and plan their memory to the byte") {
  remembers_nothing<DFlashLaw>();
  remembers_nothing<DSparkLaw>();
}

namespace {
struct Unmasked : Small<configs::KimiK3TinyDSpark> {
  static constexpr std::optional<index_t> mask_token_id = std::nullopt;
};
struct MaskedByPadding : Small<configs::KimiK3TinyDSpark> {
  static constexpr std::optional<index_t> pad_token_id = 22;
};
}  // namespace

TEST_CASE("an objective refuses a draft without a mask token of its own") {
  const auto refuse = [](auto make, const char* message) {
    CHECK_THROWS_WITH_AS(make(), doctest::Contains(message), Error);
  };
  refuse([] { DSparkObjective<DSparkDraft<Unmasked>, double>(1, 4, 1, {}); }, "mask_token_id: found nothing");
  refuse([] { DSparkObjective<DSparkDraft<MaskedByPadding>, double>(1, 4, 1, {}); }, "mask_token_id: found 22");
  refuse([] { DFlashObjective<DFlashDraft<Unmasked>, double>(1, 4, 1, 4.0); }, "mask_token_id: found nothing");
}

TEST_CASE("block batches that do not fit are refused by name") {
  Trial<DSparkLaw> o({2, 6});
  const auto c = o.call(1);
  const auto good = DSparkLaw::batch(c);
  const auto refuse = [&](const auto& change, const char* message) {
    auto batch = good;
    change(batch);
    const auto run = [&] { o.fixture().objective->evaluate_only(c.device, c.w, batch); };
    CHECK_THROWS_WITH_AS(run(), doctest::Contains(message), Error);
  };
  refuse([](auto& b) { b.length = 5; }, "batch: length: found 5, wanted 6 positions");
  refuse([](auto& b) { b.input_ids = b.input_ids.rows(0, 11); }, "batch: input_ids: found 11, wanted 12 rows");
  refuse([](auto& b) { b.loss_mask = b.loss_mask.rows(0, 11); }, "batch: loss_mask: found 11");
  refuse([](auto& b) { b.target_hidden = b.target_hidden.rows(0, 11); }, "batch: target_hidden: found 11");
  refuse([](auto& b) { b.target_last_hidden = b.target_last_hidden.rows(0, 1); }, "batch: target_last_hidden: found 1");
  refuse([](auto& b) { b.anchors = b.anchors.rows(0, 3); }, "batch: anchors: found 3, wanted 4 blocks");
  refuse([](auto& b) { b.keep = b.keep.rows(0, 3); }, "batch: keep: found 3");
  refuse([](auto& b) { b.documents.start = b.documents.start.rows(0, 3); }, "batch: document starts: found 3");
  refuse([](auto& b) { b.documents.remaining = b.documents.remaining.rows(0, 3); }, "batch: doc_remaining: found 3");
  refuse([](auto& b) { b.prefix_lengths = b.anchors.rows(0, 3); }, "batch: prefix_lengths: found 3");
  std::vector<index_t> ids(12, 22);
  for (const index_t wrong : {-1, 23}) {
    ids[7] = wrong;
    const std::string message = "batch: token at row 7: found " + std::to_string(wrong) + ", wanted 0 to 22";
    refuse([&](auto& b) { b.input_ids = Vector<const index_t>(ids.data(), 12); }, message.c_str());
  }
  o.fixture().anchors[3] = 6;
  refuse([](auto&) {}, "batch: anchor of block 3: found 6, wanted 0 to 5");
}

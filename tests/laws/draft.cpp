// The laws of the whole EAGLE-3 draft: its unroll with the head, and the training objective on top.
#include <doctest/doctest.h>

#include <memory>

#include <tests/laws/check_laws.hpp>
#include <k3spec/train/ttt_objective.hpp>

using namespace k3spec;
using laws::Input;
using laws::Shape;

namespace {

constexpr index_t steps = 3;

struct Small : configs::KimiK3 {
  static constexpr index_t vocab_size = 23, draft_vocab_size = 11;
  static constexpr index_t hidden_size = 9, target_hidden_size = 7, intermediate_size = 13;
  static constexpr std::optional<index_t> pad_token_id = std::nullopt;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 5;
  static constexpr index_t kv_lora_rank = 7, qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 6;
  static constexpr bool train_embeddings = true;
};
/// EAGLE-3.1's norms, embeddings as they were, a vocabulary of one token.
struct Small31 : Small {
  static constexpr index_t draft_vocab_size = 1;
  static constexpr bool fc_norm = true, norm_output = true, train_embeddings = false;
};

/// A packed matrix with its width known again.
template <index_t Width, class T>
Rows<T, Width> rows_of(const Matrix<T>& m) {
  return Rows<T, Width>(m.data(), m.extent(0));
}

/// aux -> the logits of all steps, side by side.
template <class Config>
struct UnrollLaw : laws::Defaults {
  using Layer = Eagle3Draft<Config>;
  static constexpr std::array inputs{Input{Layer::aux_width}};
  static constexpr index_t output = steps * Layer::draft_vocabulary, vocabulary = Layer::vocabulary;

  template <class T>
  struct Saved {
    typename Layer::template Activations<T> acts;
    std::array<Rows<T, Layer::hidden>, steps> x;
    std::array<Rows<accumulate_t<T>, Layer::hidden>, steps> d_out;
    template <Allocator A>
    static constexpr Saved allocate(A& a, Shape shape) {
      Saved s{};
      s.acts = Layer::template Activations<T>::allocate(a, shape.rows(), steps);
      for (std::size_t k = 0; k < steps; ++k)
        take_rows(a, shape.rows(), s.x[k]), take_rows(a, shape.rows(), s.d_out[k]);
      return s;
    }
  };
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return std::max(Layer::template scratch_bytes<T>(shape.rows(), steps),
                    Layer::template head_scratch_bytes<T>(shape.rows()));
  }
  static RotaryPositions positions(const auto& c) { return {nullptr, c.shape.length}; }
  template <class T>
  static void forward(const laws::Call<UnrollLaw, T>& c) {
    Layer::template forward<T>(c.device, c.w, c.ids, c.shape.length, rows_of<Layer::aux_width>(c.x[0]),
                               CausalVisibility{c.mask.data(), c.shape.length}, positions(c), c.saved.acts);
    for (index_t k = 0; k < steps; ++k) {
      const auto& x = c.saved.x[static_cast<std::size_t>(k)];
      Layer::head_input(c.device, c.w, c.saved.acts.step(k).out, x);
      Layer::compute_logits(c.device, c.w, x, c.y.columns(k * Layer::draft_vocabulary, Layer::draft_vocabulary));
    }
  }
  template <class T>
  static void backward(const laws::Call<UnrollLaw, T>& c, const laws::Back<UnrollLaw, T>& b) {
    for (index_t k = 0; k < steps; ++k) {
      const auto n = static_cast<std::size_t>(k);
      Layer::template head_backward<T>(c.device, c.w, b.d_w, c.saved.acts.step(k).out, c.saved.x[n],
                                       b.d_y.columns(k * Layer::draft_vocabulary, Layer::draft_vocabulary),
                                       c.saved.d_out[n], b.scratch);
    }
    Layer::template backward<T>(c.device, c.w, b.d_w, c.shape.length, rows_of<Layer::aux_width>(c.x[0]),
                                CausalVisibility{c.mask.data(), c.shape.length}, positions(c), c.saved.acts,
                                std::span<const Rows<accumulate_t<T>, Layer::hidden>>(c.saved.d_out), b.d_x[0],
                                b.scratch);
  }
};

/// aux and the target's logits -> the loss.
template <class Config>
struct ObjectiveLaw : laws::Defaults {
  using Layer = Eagle3Draft<Config>;
  static constexpr index_t target = Layer::vocabulary;
  static constexpr std::array inputs{Input{Layer::aux_width}, Input{target, laws::Gradient::none}};
  static constexpr index_t output = 1, vocabulary = target;
  static constexpr bool scalar = true;

  template <class T>
  struct Fixture {
    std::unique_ptr<TttObjective<Layer, T>> objective;
    std::vector<std::uint8_t> loss_mask, t2d = std::vector<std::uint8_t>(target);
    std::vector<index_t> top, selected;

    explicit Fixture(Shape shape)
        : objective(new TttObjective<Layer, T>(shape.rows(), steps)), top(static_cast<std::size_t>(shape.rows())) {
      // The last row and every fifth do not count; the draft can say every second token of the target.
      for (index_t r = 0; r < shape.rows(); ++r) {
        loss_mask.push_back(r % shape.length + 1 < shape.length && r % 5 != 4 ? 1 : 0);
      }
      for (index_t i = 0; i < Layer::draft_vocabulary; ++i)
        selected.push_back(2 * i + 1), t2d[static_cast<std::size_t>(2 * i + 1)] = 1;
    }
  };

  template <class T>
  static TttBatch<T, Layer::aux_width> batch(const laws::Call<ObjectiveLaw, T>& c) {
    const index_t rows = c.shape.rows();
    const Vector<index_t> top(c.fixture.top.data(), rows);
    argmax(c.device, c.x[1], top);
    return {c.shape.length,
            c.ids,
            c.mask,
            Vector<const std::uint8_t>(c.fixture.loss_mask.data(), rows),
            rows_of<Layer::aux_width>(c.x[0]),
            top,
            Vector<const std::uint8_t>(c.fixture.t2d.data(), target)};
  }
  template <class T>
  static LogitsTeacher<T> teacher(const laws::Call<ObjectiveLaw, T>& c) {
    return {c.x[1], Vector<const index_t>(c.fixture.selected.data(), Layer::draft_vocabulary)};
  }
  template <class T>
  static void forward(const laws::Call<ObjectiveLaw, T>& c) {
    std::fill_n(c.y.data(), c.y.size(), T(0.0f));
    c.y(0, 0) =
        T(static_cast<accumulate_t<T>>(c.fixture.objective->evaluate_only(c.device, c.w, batch(c), teacher(c)).loss));
  }
  template <class T>
  static void backward(const laws::Call<ObjectiveLaw, T>& c, const laws::Back<ObjectiveLaw, T>& b) {
    c.fixture.objective->forward_backward(c.device, c.w, b.d_w, batch(c), teacher(c), b.d_x[0]);
  }
};

}  // namespace

TEST_CASE("laws: Eagle3Draft unrolled over three steps") {
  laws::check<UnrollLaw<Small>>({{1, 1}, {4, 5}, {1, 35}});
  laws::check<UnrollLaw<Small31>>({{1, 1}, {4, 5}});
}

TEST_CASE("laws: the EAGLE-3 objective") {
  laws::check<ObjectiveLaw<Small>>({{1, 2}, {4, 6}, {1, 9}});
  laws::check<ObjectiveLaw<Small31>>({{4, 6}});
}

namespace {

/// An objective's operands that a test may change before it runs.
struct Objective : laws::Trial<ObjectiveLaw<Small>, double> {
  using Law = ObjectiveLaw<Small>;
  using Trial::Trial;

  TttResult run() {
    const auto c = call(1);
    const auto b = back();
    const auto result =
        fixture().objective->forward_backward(c.device, c.w, b.d_w, Law::batch(c), Law::teacher(c), b.d_x[0]);
    fetch_gradients();
    return result;
  }
  bool gradients_are_zero() {
    for (const auto& t : tensors()) {
      for (index_t i = 0; i < t.size; ++i) {
        if (t.gradient[i] != 0) return false;
      }
    }
    return true;
  }
};

}  // namespace

TEST_CASE("nothing supervised: loss 0 and gradients 0, not NaN") {
  Objective masked({4, 6}), unsayable({4, 6});
  std::fill(masked.fixture().loss_mask.begin(), masked.fixture().loss_mask.end(), std::uint8_t{0});
  std::fill(unsayable.fixture().t2d.begin(), unsayable.fixture().t2d.end(), std::uint8_t{0});
  for (auto* objective : {&masked, &unsayable}) {
    const TttResult r = objective->run();
    CHECK(r.loss == 0);
    CHECK(r.valid == 0);
    CHECK(r.correct == 0);
    CHECK(r.simulated_accept_length(steps) == 1);
    CHECK(objective->gradients_are_zero());
    // A chain counts even where the draft has no word for its tokens.
    CHECK((r.step_valid[0] > 0) == (objective == &unsayable));
  }
}

TEST_CASE("an objective remembers nothing of the batch before, and plans its memory to the byte") {
  Objective fresh({3, 7}, 5), used({3, 7}, 5);
  Objective other({3, 7});
  std::swap(other.fixture().objective, used.fixture().objective);
  other.run();
  std::swap(other.fixture().objective, used.fixture().objective);
  const TttResult a = fresh.run(), b = used.run();
  CHECK(a.loss == b.loss);
  CHECK(laws::compare_bits(used.results(), fresh.results(), "after another batch") == "");
  CHECK(used.fixture().objective->peak_bytes() == TttObjective<Eagle3Draft<Small>, double>::bytes(21, steps));
}

TEST_CASE("batches that do not fit are refused by name") {
  using Errors = TttObjective<Eagle3Draft<Small>, double>;
  Objective o({2, 6});
  const auto c = o.call(1);
  const auto good = Objective::Law::batch(c);
  const auto refuse = [&](const auto& change, const char* message) {
    auto batch = good;
    change(batch);
    const auto run = [&] { o.fixture().objective->evaluate_only(c.device, c.w, batch, Objective::Law::teacher(c)); };
    CHECK_THROWS_WITH_AS(run(), doctest::Contains(message), Error);
  };
  refuse([](auto& b) { b.length = 5; }, "batch: length: found 5, wanted a divisor of 12");
  refuse([](auto& b) { b.length = 0; }, "batch: length: found 0");
  refuse([](auto& b) { b.input_ids = b.input_ids.rows(0, 11); }, "batch: input_ids: found 11, wanted 12 rows");
  refuse([](auto& b) { b.loss_mask = b.loss_mask.rows(0, 11); }, "batch: loss_mask: found 11");
  refuse([](auto& b) { b.aux = b.aux.rows(0, 11); }, "batch: aux: found 11");
  refuse([](auto& b) { b.t2d = b.t2d.rows(0, 22); }, "batch: t2d: found 22, wanted 23 tokens");
  o.fixture().top[3] = 23;
  refuse([](auto&) {}, "batch: teacher_top at row 3: found 23, wanted 0 to 22");
  CHECK_THROWS_WITH_AS(Errors(12, 0), doctest::Contains("ttt_steps: found 0, wanted 1 to 16"), Error);
  CHECK_THROWS_WITH_AS(Errors(12, 17), doctest::Contains("ttt_steps: found 17"), Error);
}

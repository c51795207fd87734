#pragma once
// The EAGLE-3 draft as laws see it: its unroll with the head, and the training objective on top.
#include <memory>

#include <tests/laws/laws.hpp>
#include <tests/support/case_configs.hpp>
#include <k3spec/objectives/ttt_objective.hpp>

namespace k3spec::laws {

inline constexpr index_t steps = 3;

struct Small : test::NoSpecialTokens<configs::KimiK3> {
  static constexpr index_t vocab_size = 23, draft_vocab_size = 11;
  static constexpr index_t hidden_size = 9, target_hidden_size = 7, intermediate_size = 13;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 5;
  static constexpr index_t kv_lora_rank = 7, qk_nope_head_dim = 5, qk_rope_head_dim = 3, v_head_dim = 6;
  static constexpr bool train_embeddings = true;
};
/// EAGLE-3.1's norms, the target's embeddings (and so its width), a vocabulary of one token.
struct Small31 : Small {
  static constexpr index_t target_hidden_size = 9;
  static constexpr index_t draft_vocab_size = 1;
  static constexpr bool fc_norm = true, norm_output = true, train_embeddings = false;
};

/// DeepSeek-V3's block in these sizes; and with all that EAGLE-3.1 and YaRN add.
struct SmallDeepSeek : test::DeepSeekCases<Small> {
  static constexpr index_t qk_rope_head_dim = 4;
};
struct SmallDeepSeek31 : SmallDeepSeek {
  static constexpr bool fc_norm = true, norm_output = true;
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
  static constexpr std::optional<Yarn> rope_scaling = test::yarn_of_cases;
  static constexpr SoftmaxMscale softmax_mscale = SoftmaxMscale::yarn_mscale_squared;
};

/// Whether a sequence is one document, or packed with documents of 1, 2, 3 … positions.
enum class Sequence { whole, packed };

/// A packed matrix with its width known again.
template <index_t Width, class T>
Rows<T, Width> rows_of(const Matrix<T>& m) {
  return Rows<T, Width>(m.data(), m.extent(0));
}

/// aux -> the logits of all steps, side by side.
template <class Config, Sequence Is = Sequence::whole>
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
  /// Where each row's document starts, and its position: within its document unless a test says otherwise.
  template <class T>
  struct Fixture {
    std::vector<index_t> starts, positions;

    explicit Fixture(Shape shape) {
      for (index_t s = 0; s < shape.sequences; ++s) {
        for (index_t t = 0, start = 0, size = 1; t < shape.length; ++t) {
          if (Is == Sequence::packed && t == start + size) start = t, ++size;
          starts.push_back(start), positions.push_back(t - start);
        }
      }
    }
  };
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape shape) {
    return std::max(Layer::template scratch_bytes<T>(shape.rows(), steps),
                    Layer::template head_scratch_bytes<T>(shape.rows()));
  }
  static CausalVisibility visible(const auto& c) {
    return {bare(c.mask.data()), c.shape.length, Is == Sequence::packed ? c.fixture.starts.data() : nullptr};
  }
  static RotaryPositions positions(const auto& c) { return {c.fixture.positions.data()}; }
  template <class T>
  static void forward(const laws::Call<UnrollLaw, T>& c) {
    Layer::template forward<T>(c.device, c.w,
                               typename Layer::template Inputs<T, CausalVisibility>{
                                   c.ids, c.shape.length, rows_of<Layer::aux_width>(c.x[0]), visible(c), positions(c)},
                               c.saved.acts);
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
      Layer::template head_backward<T>(
          Workspace(c.device, b.scratch), c.w, b.d_w, c.saved.acts.step(k).out, c.saved.x[n],
          b.d_y.columns(k * Layer::draft_vocabulary, Layer::draft_vocabulary), c.saved.d_out[n]);
    }
    Layer::template backward<T>(Workspace(c.device, b.scratch), c.w, b.d_w,
                                typename Layer::template Inputs<T, CausalVisibility>{
                                    {}, c.shape.length, rows_of<Layer::aux_width>(c.x[0]), visible(c), positions(c)},
                                c.saved.acts, std::span<const Rows<accumulate_t<T>, Layer::hidden>>(c.saved.d_out),
                                b.d_x[0]);
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
        T(static_cast<accumulate_t<T>>(c.fixture.objective->evaluate_only(c.device, c.w, batch(c), teacher(c)).loss()));
  }
  template <class T>
  static void backward(const laws::Call<ObjectiveLaw, T>& c, const laws::Back<ObjectiveLaw, T>& b) {
    c.fixture.objective->forward_backward(c.device, c.w, b.d_w, batch(c), teacher(c), std::nullopt, b.d_x[0]);
  }
};

}  // namespace k3spec::laws

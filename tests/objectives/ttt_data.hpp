#pragma once
/// \file
/// Batches for the EAGLE-3 objective, of both backbones, and what comes of them.
/// defines: test::ttt::Data, test::ttt::Outcome, test::ttt::part

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <k3spec/batches/teacher.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/objectives/ttt_objective.hpp>

#include "tests/support/case_configs.hpp"
#include "tests/support/ttt_numbers.hpp"

namespace k3spec::test::ttt {

template <class Preset, index_t DraftVocabulary>
struct Small : test::NoSpecialTokens<Preset> {
  static constexpr index_t vocab_size = 23, draft_vocab_size = DraftVocabulary;
  static constexpr index_t hidden_size = 9, target_hidden_size = 7, intermediate_size = 13;
  static constexpr std::optional<index_t> pad_token_id = 0;
  static constexpr index_t num_attention_heads = 3, num_key_value_heads = 3;
  static constexpr std::optional<index_t> q_lora_rank = 5;
  static constexpr index_t kv_lora_rank = 7, qk_nope_head_dim = 5, qk_rope_head_dim = 4, v_head_dim = 6;
  static constexpr bool train_embeddings = true;
};
using K3 = Small<configs::KimiK3, 11>;
using DeepSeek = Small<configs::DeepSeekV3, 11>;
using K3OfOne = Small<configs::KimiK3, 1>;
using DeepSeekOfOne = Small<configs::DeepSeekV3, 1>;

inline constexpr index_t steps = 3, vocabulary = 23;
inline const std::vector<TttLoss> losses{
    {}, {.lk = LkLoss::alpha}, {.lk = LkLoss::lambda, .kl_scale = 0.5, .kl_decay = 1}};

/// A batch of `sequences` of `length`, shifted as a target batch is: a row's last position has no token after it.
template <class Config>
struct Data {
  using Draft = Eagle3Draft<Config>;
  index_t sequences, length, rows = sequences * length;
  std::vector<index_t> ids{}, top{}, selected{}, start{}, remaining{}, position_ids{};
  std::vector<std::uint8_t> attention_mask{}, loss_mask{}, t2d = std::vector<std::uint8_t>(vocabulary);
  std::vector<double> aux{}, logits{};

  Data(index_t sequences_, index_t length_) : sequences(sequences_), length(length_) {
    for (index_t i = 0; i < Config::draft_vocab_size; ++i)
      selected.push_back(2 * i + 1), t2d[static_cast<std::size_t>(selected.back())] = 1;
    for (index_t r = 0; r < rows; ++r) add(r, r % length == length - 1);
  }

  /// Position `drawn` of some text.
  void add(index_t drawn, bool last) {
    const auto row = static_cast<std::uint64_t>(drawn);
    ids.push_back(last ? 0 : static_cast<index_t>(Philox(1).below(row, vocabulary)));
    attention_mask.push_back(1), loss_mask.push_back(last ? 0 : 1);
    for (std::uint64_t j = 0; j < Draft::aux_width; ++j) aux.push_back(Philox(2, row).normal(j));
    for (std::uint64_t j = 0; j < vocabulary; ++j) logits.push_back(2 * Philox(3, row).normal(j));
    if (Config::draft_vocab_size == 1 || drawn % 4 != 0) logits[logits.size() - 22] = 9;  // mostly sayable
    top.push_back(std::max_element(logits.end() - vocabulary, logits.end()) - (logits.end() - vocabulary));
  }
  void pad() {
    add(1000, true);
    attention_mask.back() = 0;
  }

  TttBatch<double, Draft::aux_width> batch() const {
    const auto view = [](const auto& v) {
      return Vector<const typename std::decay_t<decltype(v)>::value_type>(v.data(), static_cast<index_t>(v.size()));
    };
    return {length,
            view(ids),
            view(attention_mask),
            view(loss_mask),
            Rows<const double, Draft::aux_width>(aux.data(), rows),
            view(top),
            view(t2d),
            {view(start), view(remaining)},
            view(position_ids)};
  }
  LogitsTeacher<double> teacher() const {
    return {Matrix<const double>(logits.data(), rows, vocabulary),
            Vector<const index_t>(selected.data(), static_cast<index_t>(selected.size()))};
  }
};

template <class Config, index_t... Chunk>
struct Outcome {
  using Draft = Eagle3Draft<Config>;
  TttNumbers result;
  std::vector<double> gradients, d_aux;
  std::array<std::vector<double>, steps> out;

  static const Parameters<Draft, double>& parameters() {
    static const auto all = [] {
      Parameters<Draft, double> p;
      p.initialize(3, 0.4);
      return p;
    }();
    return all;
  }

  Outcome(const Data<Config>& data, const TttLoss& loss) {
    TttObjective<Draft, double, Chunk...> objective(data.rows, steps, loss);
    Gradients<Draft, double> g;
    g.zero();
    d_aux.assign(data.aux.size(), NAN);
    const LogitsTeacher<double> teacher = data.teacher();
    const auto d_w = g.weights();
    result = objective.forward_backward(Cpu{2}, parameters().weights(), d_w, data.batch(), teacher, std::nullopt,
                                        Matrix<double>(d_aux.data(), data.rows, Draft::aux_width));
    const TttNumbers evaluated = objective.evaluate_only(Cpu{}, parameters().weights(), data.batch(), teacher);
    CHECK(evaluated.loss == result.loss);
    CHECK(evaluated.step_alphas == result.step_alphas);
    Draft::visit(d_w, Path{}, [&](const Path&, const auto& view, auto) {
      gradients.insert(gradients.end(), view.data(), view.data() + (view.data() == nullptr ? 0 : view.size()));
    });
    for (index_t k = 0; k < steps; ++k) {
      const auto& o = objective.out(k);
      out[static_cast<std::size_t>(k)].assign(o.data(), o.data() + data.rows * Draft::hidden);
    }
  }

  bool finite() const {
    const auto all = [](const std::vector<double>& v) {
      return std::all_of(v.begin(), v.end(), [](double x) { return std::isfinite(x); });
    };
    return std::isfinite(result.loss) && all(gradients) && all(d_aux) && std::all_of(out.begin(), out.end(), all);
  }
  bool zero() const {
    const auto all = [](const std::vector<double>& v) {
      return std::all_of(v.begin(), v.end(), [](double x) { return x == 0; });
    };
    return result.loss == 0 && all(gradients) && all(d_aux) &&
           std::all_of(result.step_losses.begin(), result.step_losses.end(), [](double x) { return x == 0; });
  }
};

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, scale = 0;
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i])), scale = std::max(scale, std::abs(b[i]));
    if (std::isnan(a[i] - b[i])) return NAN;
  }
  return most / scale;
}

/// Some sequences of a whole's, as a batch of their own.
template <class Config>
Data<Config> part(const Data<Config>& whole, index_t first, index_t sequences = 1) {
  Data<Config> some(0, whole.length);
  some.sequences = sequences, some.rows = sequences * whole.length;
  const auto take = [&](const auto& from, auto& to) {
    const auto width = static_cast<std::ptrdiff_t>(from.size()) / whole.sequences;
    to.assign(from.begin() + first * width, from.begin() + (first + sequences) * width);
  };
  take(whole.ids, some.ids), take(whole.top, some.top), take(whole.attention_mask, some.attention_mask);
  take(whole.loss_mask, some.loss_mask), take(whole.aux, some.aux), take(whole.logits, some.logits);
  return some;
}

}  // namespace k3spec::test::ttt

#pragma once
/// \file
/// Rotary positions (arXiv 2104.09864), interleaved: columns (2i, 2i+1) of the rope slice turn by position · frequency
/// i.
/// ```text
/// frequency i   theta^(-2i/rope); stretched where YaRN (arXiv 2309.00071) asks for it
/// forward       (a, b) -> (a cos - b sin, a sin + b cos), in place
/// backward      the same with -sin: a rotation's transpose, in place on gradients
/// ```
/// Frequencies and angles are float32 whatever is stored, as models are trained with them; cos and sin are those of
/// accumulate_t. A position's angle is float32(position) · frequency, rounded to float32.
/// Saved: nothing but the positions.
/// defines: RotaryPositions, rope_frequencies, yarn_mscale, YarnScale, RotaryEmbedding

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <optional>

#include <k3spec/backend/cpu/evaluate.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/core/require_shape.hpp>

namespace K3SPEC_NAMESPACE {

/// The position of each row: ids[row] where there are any, else counted from `first` within sequences of `length` rows
/// (0: all rows are one sequence); and `shift` more.
struct RotaryPositions {
  const index_t* ids = nullptr;
  index_t length = 0, first = 0, shift = 0;

  index_t operator()(index_t row) const {
    if (ids != nullptr) return ids[row] + shift;
    return first + (length > 0 ? row % length : row) + shift;
  }
  RotaryPositions shifted(index_t by) const { return {ids, length, first, shift + by}; }
};

template <index_t Rope>
using RopeFrequencies = std::array<float, static_cast<std::size_t>(Rope / 2)>;

namespace detail {

/// theta^(-2i/rope), each operation rounded to float32.
template <index_t Rope>
RopeFrequencies<Rope> plain_frequencies(double theta) {
  RopeFrequencies<Rope> f;
  for (std::size_t i = 0; i < f.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(Rope);
    f[i] = 1.0f /
           static_cast<float>(std::pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(exponent)));
  }
  return f;
}

/// Slow frequencies, those of less than beta_slow turns within the original length, are divided by the factor; fast
/// ones, of more than beta_fast, stay; between them there is a ramp.
template <index_t Rope>
void stretch(RopeFrequencies<Rope>& f, double theta, const Yarn& yarn) {
  const auto index_of = [&](double turns) {
    const double length = static_cast<double>(yarn.original_max_position_embeddings);
    return static_cast<double>(Rope) * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const double low = std::max(std::floor(index_of(yarn.beta_fast)), 0.0);
  double high = std::min(std::ceil(index_of(yarn.beta_slow)), static_cast<double>(Rope - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < f.size(); ++i) {
    const float at = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float slow = std::clamp(at, 0.0f, 1.0f);
    f[i] = f[i] / static_cast<float>(yarn.factor) * slow + f[i] * (1.0f - slow);
  }
}

/// The config's YaRN where it has an effect: where positions go beyond the original ones.
template <class Config>
constexpr std::optional<Yarn> effective_yarn() {
  constexpr std::optional<Yarn> yarn = Config::rope_scaling;
  if (yarn && Config::max_position_embeddings > yarn->original_max_position_embeddings) return yarn;
  return std::nullopt;
}

}  // namespace detail

/// Angles per position, [rope/2].
template <class Config>
const RopeFrequencies<Config::qk_rope_head_dim>& rope_frequencies() {
  constexpr index_t rope = Config::qk_rope_head_dim;
  static const auto frequencies = [] {
    auto f = detail::plain_frequencies<rope>(Config::rope_theta);
    if (const auto yarn = detail::effective_yarn<Config>()) detail::stretch<rope>(f, Config::rope_theta, *yarn);
    return f;
  }();
  return frequencies;
}

/// YaRN's temperature, 0.1 · mscale_all_dim · ln(factor) + 1; 1 where YaRN has no effect.
template <class Config>
double yarn_mscale() {
  const auto yarn = detail::effective_yarn<Config>();
  return yarn && yarn->factor > 1 ? 0.1 * yarn->mscale_all_dim * std::log(yarn->factor) + 1 : 1.0;
}

/// What attention scores are multiplied by under SoftmaxMscale::yarn_mscale_squared: mscale² / sqrt(a query's width).
template <class Config>
struct YarnScale {
  template <class S>
  static S of(index_t width) {
    static const double mscale = yarn_mscale<Config>();
    return static_cast<S>(mscale * mscale) / std::sqrt(static_cast<S>(width));
  }
};

/// q [rows, heads·(nope+rope)], heads of [nope ‖ rope]; k_rope [rows, rope], the slice that all heads share.
template <index_t Heads, index_t Nope, index_t Rope>
struct RotaryEmbedding {
  static_assert(Rope % 2 == 0, "RotaryEmbedding: pairs of columns are rotated, so the slice must have an even width");
  using Frequencies = RopeFrequencies<Rope>;

  /// cos and sin of a position's angles, [rope/2], in the arithmetic of what is stored as T.
  template <Element T>
  struct Angles {
    using S = accumulate_t<T>;
    std::array<S, static_cast<std::size_t>(Rope / 2)> cos, sin;

    Angles(const Frequencies& f, index_t position, bool back = false) {
      for (std::size_t i = 0; i < f.size(); ++i) {
        const float angle = static_cast<float>(position) * f[i];
        cos[i] = std::cos(static_cast<S>(angle));
        sin[i] = back ? -std::sin(static_cast<S>(angle)) : std::sin(static_cast<S>(angle));
      }
    }

    /// x [rope], in place; T or, of gradients, S
    template <class X>
    void rotate(X* x) const {
      for (std::size_t i = 0; i < cos.size(); ++i) {
        const S a = static_cast<S>(x[2 * i]), b = static_cast<S>(x[2 * i + 1]);
        x[2 * i] = static_cast<X>(a * cos[i] - b * sin[i]);
        x[2 * i + 1] = static_cast<X>(a * sin[i] + b * cos[i]);
      }
    }
  };

  template <Element T>
  static void forward(const Cpu& cpu, const Frequencies& f, const RotaryPositions& at, const Matrix<T>& q,
                      const Matrix<T>& k_rope) {
    rotate_rows<false>(cpu, f, at, q, k_rope);
  }

  /// d_q and d_k_rope of what was rotated -> those of what it was rotated from.
  template <Element S>
  static void backward(const Cpu& cpu, const Frequencies& f, const RotaryPositions& at, const Matrix<S>& d_q,
                       const Matrix<S>& d_k_rope) {
    rotate_rows<true>(cpu, f, at, d_q, d_k_rope);
  }

 private:
  template <bool Back, class T>
  static void rotate_rows(const Cpu& cpu, const Frequencies& f, const RotaryPositions& at, const Matrix<T>& q,
                          const Matrix<T>& k_rope) {
    require_shape(Back ? "rope: d_q" : "rope: q", q, q.extent(0), Heads * (Nope + Rope));
    require_shape(Back ? "rope: d_k_rope" : "rope: k_rope", k_rope, q.extent(0), Rope);
    cpu::for_pieces(cpu, q.extent(0), (Heads + 1) * Rope, false, [&](index_t begin, index_t end, index_t, index_t) {
      for (index_t r = begin; r < end; ++r) {
        const Angles<T> angles(f, at(r), Back);
        for (index_t h = 0; h < Heads; ++h) angles.rotate(q.row(r) + h * (Nope + Rope) + Nope);
        angles.rotate(k_rope.row(r));
      }
    });
  }
};

}  // namespace K3SPEC_NAMESPACE

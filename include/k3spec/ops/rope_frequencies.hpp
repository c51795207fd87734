#pragma once
/// \file
/// Frequencies of rotary positions (arXiv 2104.09864): theta^(-2i/rope), stretched where the config's YaRN
/// (arXiv 2309.00071, config/rope_scaling.hpp) has an effect; and YaRN's temperature of the softmax. Each operation on
/// a frequency is rounded to float32, as models are trained with them.
/// defines: rope_frequencies, yarn_mscale, YarnScale

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>

#include <k3spec/backend/rope_problem.hpp>
#include <k3spec/config/rope_scaling.hpp>

namespace K3SPEC_NAMESPACE {

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

}  // namespace detail

/// Angles per position, [rope/2].
template <class Config>
const RopeFrequencies<Config::qk_rope_head_dim>& rope_frequencies() {
  constexpr index_t rope = Config::qk_rope_head_dim;
  static const auto frequencies = [] {
    auto f = detail::plain_frequencies<rope>(Config::rope_theta);
    if (const auto yarn = effective_yarn<Config>()) detail::stretch<rope>(f, Config::rope_theta, *yarn);
    return f;
  }();
  return frequencies;
}

/// YaRN's temperature, 0.1 · mscale_all_dim · ln(factor) + 1; 1 where YaRN has no effect.
template <class Config>
double yarn_mscale() {
  const auto yarn = effective_yarn<Config>();
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

}  // namespace K3SPEC_NAMESPACE

#pragma once
/// \file
/// What the programs are compiled for: the bundled miniature and its EAGLE-3 drafts.
/// defines: TargetConfig, Eagle3Form, with_eagle3_version, with_eagle3_form, eagle3_form_of

#include <limits>
#include <string>

#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/eagle3_1.hpp>
#include <k3spec/io/draft_config.hpp>

namespace k3spec::examples {

/// The bundled miniature, whose tokens are bytes.
using TargetConfig = configs::KimiK3Tiny;

struct Eagle3Form {
  Backbone backbone = Backbone::kimi_k3;
  std::string version = "3";  ///< or 3.1

  bool operator==(const Eagle3Form&) const = default;
};

/// Calls f<Config>() for the version of a draft.
template <class Base, class F>
decltype(auto) with_eagle3_version(const std::string& version, F&& f) {
  if (version == "3.1") return f.template operator()<configs::Eagle31<Base>>();
  return f.template operator()<Base>();
}

/// The same for a draft of either backbone.
template <class F>
decltype(auto) with_eagle3_form(const Eagle3Form& form, F&& f) {
  if (form.backbone == Backbone::deepseek_v3) return with_eagle3_version<configs::DeepSeekV3Tiny>(form.version, f);
  return with_eagle3_version<TargetConfig>(form.version, f);
}

/// The form that a draft's config.json differs from least: not at all, if it is one of these.
inline Eagle3Form eagle3_form_of(const io::json& config) {
  Eagle3Form best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  const auto look = [&]<class Config>(const char* version) {
    const std::size_t n = io::draft_differences<DraftKind::eagle3, Config>(config).size();
    if (n < least) least = n, best = {Config::backbone, version};
  };
  look.operator()<TargetConfig>("3");
  look.operator()<configs::Eagle31<TargetConfig>>("3.1");
  look.operator()<configs::DeepSeekV3Tiny>("3");
  look.operator()<configs::Eagle31<configs::DeepSeekV3Tiny>>("3.1");
  return best;
}

}  // namespace k3spec::examples

// What was emitted compiles, and is, field by field, what it was emitted from.

#include "emitted_presets.hpp"

#include <string_view>
#include <type_traits>

#include <k3spec/config/fields.hpp>

#include "presets.hpp"

using namespace k3spec;

namespace {

template <class A, class B>
constexpr bool same_value(const A& a, const B& b) {
  if constexpr (requires {
                  a.size();
                  b.size();
                }) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  } else if constexpr (std::is_same_v<A, B>) {
    return a == b;
  } else {
    return false;
  }
}

/// Whether a visit of B finds what one of A did. \param visit  called with a config's type and what it hands fields to
template <class A, class B, class Visit>
constexpr bool same_fields(Visit visit) {
  index_t same = 0, all = 0;
  visit(std::type_identity<A>{}, [&](std::string_view name, const auto& a) {
    ++all;
    visit(std::type_identity<B>{}, [&](std::string_view other, const auto& b) {
      if (name == other && same_value(a, b)) ++same;
    });
  });
  return same == all && all > 10;
}

template <class A, class B>
constexpr bool same_target() {
  return same_fields<A, B>([](auto config, auto&& v) { visit_target_fields<typename decltype(config)::type>(v); }) &&
         same_value(A::other_stop_token_ids, B::other_stop_token_ids) && A::media_token_id == B::media_token_id &&
         A::target_mla_norm_eps == B::target_mla_norm_eps && A::mla_norm_eps == B::mla_norm_eps &&
         A::backbone == B::backbone && A::softmax_mscale == B::softmax_mscale;
}

template <DraftKind Kind, class A, class B>
constexpr bool same_draft() {
  using Form = DraftForm<Kind>;
  bool same =
      same_fields<A, B>([](auto config, auto&& v) { Form::template visit<typename decltype(config)::type>(v); }) &&
      Form::template target_layers<A> == Form::template target_layers<B> && A::backbone == B::backbone &&
      A::softmax_mscale == B::softmax_mscale;
  if constexpr (!A::mla_use_nope) same = same && A::rope_theta == B::rope_theta && A::rope_scaling == B::rope_scaling;
  return same;
}

#define TARGET(Config, name) static_assert(same_target<Config, emitted::of::name>(), #name);
#define DRAFT(kind, Config, name) static_assert(same_draft<DraftKind::kind, Config, emitted::of::name>(), #name);
EMITTED_TARGETS(TARGET)
EMITTED_DRAFTS(DRAFT)

// A comparison that sees no difference would prove nothing.
static_assert(!same_target<configs::KimiK3TinyTarget, emitted::of::Small>());
struct OtherGate : emitted::of::Odd {
  K3SPEC_CHANGE(Odd, kda_gate_lower_bound, -1);
};
static_assert(!same_target<test::OddTarget, OtherGate>());

// Drafts to begin with can be had by the least target.
static_assert(emitted::of::LeastEagle3::draft_vocab_size == 3 && emitted::of::LeastEagle3::num_aux_hidden_states == 1);
static_assert(emitted::of::LeastDFlash::num_target_layers == 2 && !emitted::of::LeastDSpark::mask_token_id);
static_assert(emitted::of::OddDSpark::mask_token_id == 47 && emitted::of::OddDFlash::num_target_layers == 3);
static_assert(emitted::of::K3Eagle3::draft_vocab_size == 32000 && emitted::of::K3DFlash::block_size == 8);

}  // namespace

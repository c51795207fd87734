#pragma once
/// \file
/// A config in which a misspelt field is an error. A plain member that has no field's name hides nothing, and nobody
/// reads it; K3SPEC_CHANGE says whose field it hides, and gives the value that field's type:
/// ```cpp
/// struct Mine : configs::KimiK3Tiny {
///   K3SPEC_CHANGE(KimiK3Tiny, hidden_size, 64);
///   K3SPEC_CHANGE(KimiK3Tiny, target_hidden_size, 64);
///   K3SPEC_CHANGE(KimiK3Tiny, q_lora_rank, std::nullopt);
///   K3SPEC_CHANGE(KimiK3Tiny, full_attn_layers, std::array<index_t, 3>{2, 4, 8});
/// };
/// ```
/// defines: K3SPEC_CHANGE, in_place_of

#include <concepts>
#include <iterator>
#include <type_traits>

#include <k3spec/core/instruction_set.hpp>

namespace K3SPEC_NAMESPACE {

/// `value` as a field of type Old has it; a list may be of another length.
template <class Old, class New>
constexpr auto in_place_of(const Old&, const New& value) {
  constexpr bool lists = requires(const Old& a, const New& b) { std::begin(a), std::begin(b); };
  static_assert(lists || std::convertible_to<const New&, Old>, "config: the value is not of the field's type");
  if constexpr (!lists && std::convertible_to<const New&, Old>) {
    const Old changed = value;
    return changed;
  } else {
    return value;
  }
}

}  // namespace K3SPEC_NAMESPACE

/// Declares a member that hides `field` of `Base`. \param ...  the value
#define K3SPEC_CHANGE(Base, field, ...) static constexpr auto field = ::k3spec::in_place_of(Base::field, __VA_ARGS__)

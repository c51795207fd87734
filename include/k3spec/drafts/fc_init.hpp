#pragma once
/// \file
/// How EAGLE-3's fc, which turns the target's auxiliary states into the draft's first hidden state, begins.
/// defines: FcInit, check_fc_init, initialize_fc

#include <algorithm>
#include <string>

#include <k3spec/config/conventions.hpp>
#include <k3spec/core/parameters.hpp>

namespace K3SPEC_NAMESPACE {

/// normal: as all other weights do. last_identity: [0 … 0 I], so that the draft begins with the last auxiliary state.
enum class FcInit { normal, last_identity };
template <>
inline constexpr std::array<std::string_view, 2> names_of<FcInit>{"normal", "last_identity"};

/// Refuses an initial fc that the draft cannot have.
/// \throws Error when the identity does not fit: states of the target are not as wide as the draft's
template <class Draft>
void check_fc_init(FcInit init) {
  if (init == FcInit::normal || Draft::aux_size == Draft::hidden) return;
  throw Error("fc_init", "last_identity",
              "normal: target_hidden_size " + std::to_string(Draft::aux_size) + " is not hidden_size " +
                  std::to_string(Draft::hidden));
}

/// Gives fc its initial values.
/// \throws Error as check_fc_init does
template <class Draft, Element T>
void initialize_fc(FcInit init, Parameters<Draft, T>& parameters) {
  check_fc_init<Draft>(init);
  if (init == FcInit::normal) return;
  const auto weight = parameters.mutable_weights().fc.weight;
  std::fill_n(weight.data(), weight.size(), T(0.0f));
  for (index_t i = 0; i < Draft::hidden; ++i) weight.row(i)[Draft::aux_width - Draft::hidden + i] = T(1.0f);
}

}  // namespace K3SPEC_NAMESPACE

#pragma once
/// \file
/// A session that proposes nothing: with it a SpeculativeDecoder is plain decoding, of several texts together.
/// defines: NoDraft

#include <k3spec/config/conventions.hpp>
#include <k3spec/decode/adaptive_length.hpp>
#include <k3spec/decode/draft_session.hpp>
#include <k3spec/decode/target_rows.hpp>

namespace K3SPEC_NAMESPACE {

/// A draft that proposes nothing, see DraftSession.
/// \tparam Given  see SpeculativeDecoder
template <ForEngine Given, Element T, Device D = Cpu>
class NoDraft {
  using Engine = target_engine_t<Given, T, D>;
  using E = element_t<D, T>;

 public:
  using value_type = T;
  using S = accumulate_t<E>;
  using Conventions = Eagle3Conventions;
  /// Nothing is needed.
  struct Source {};
  static constexpr index_t states = 0, target_hidden = Engine::hidden;
  static constexpr index_t vocabulary = Engine::vocabulary, max_chain = 256;
  static index_t default_chain(const Conventions&) { return 0; }

  static std::vector<Tap> taps(std::span<const index_t>, index_t, const Conventions&) { return {}; }

  static std::size_t bytes(const SessionSize&) { return 0; }

  template <class Target>
  NoDraft(const Target&, const Source&, const SessionSize&, const D& = D{}) {}

  void reset(index_t) {}
  void append(const D&, const Matrix<const E>&, std::span<const index_t>, std::span<const index_t>) {}
  void draft(const D&, std::span<const index_t>, std::span<const Sampling>, AdaptiveLength* = nullptr) {}
  Proposal<S> proposal(index_t) const { return {}; }
};

}  // namespace K3SPEC_NAMESPACE

#pragma once
/// \file
/// Ranks that were given other settings would train other drafts, each with a part of the others' gradients.
/// defines: require_same_settings

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <k3spec/batches/fingerprint.hpp>
#include <k3spec/comm/communicator.hpp>
#include <k3spec/run/settings_json.hpp>

namespace K3SPEC_NAMESPACE {

/// Compares the fingerprints of all ranks' settings; each rank calls it, and is told the same.
/// \tparam Comm  a Communicator of any device's
/// \throws Error naming the first rank whose settings are not those of rank 0
template <class Comm>
void require_same_settings(Comm& comm, const TrainSettings& settings) {
  if (comm.size() == 1) return;
  const std::string text = settings_json(settings).dump();
  std::vector<std::int64_t> of_ranks(static_cast<std::size_t>(comm.size()));
  const auto own = static_cast<std::size_t>(comm.rank());
  of_ranks[own] = std::bit_cast<std::int64_t>(detail::hash_bytes(std::as_bytes(std::span(text))));
  comm.sum(std::span(of_ranks));  // one summand of each is not 0
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    if (of_ranks[rank] == of_ranks[0]) continue;
    throw Error("settings", "others on rank " + std::to_string(rank), "those of rank 0");
  }
}

}  // namespace K3SPEC_NAMESPACE

#pragma once
/// \file
/// What a run begins with: a draft with fresh parameters, and the target's fingerprint.
/// defines: fresh_draft, target_fingerprint

#include <k3spec/batches/stored_features.hpp>
#include <k3spec/core/finite.hpp>
#include <k3spec/core/parameters.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/run/run_sources.hpp>
#include <k3spec/run/train_settings.hpp>

namespace K3SPEC_NAMESPACE {

/// The fingerprint of a target's parameters in the host's memory or still to be read.
template <class Target, Device D, class Weights>
Fingerprint target_fingerprint(const D& device, const Weights& weights) {
  return host_fingerprint<Target>(device, weights);
}
/// That of the target which a cache is of.
template <class Target, Device D, ForTarget Given, Element T>
Fingerprint target_fingerprint(const D&, const StoredFeatures<Given, T>& stored) {
  return stored.plan().target_fingerprint;
}

namespace detail {

/// What drafts begin with.
template <class Target, class Weights>
const Weights& finite_tables(const Weights& weights) {
  require_finite<Target>(weights, "target");
  return weights;
}
template <class Target, ForTarget Given, Element T>
const typename StoredFeatures<Given, T>::Tables& finite_tables(const StoredFeatures<Given, T>& stored) {
  const auto check = [&](const char* name, const auto& table) {
    const index_t at = first_not_finite(table.data(), table.size());
    if (at == table.size()) return;
    throw Error(fmt::format("{}: '{}': element {}", stored.file(), name, at),
                number_text(static_cast<double>(table.data()[at])), "a finite number");
  };
  check("embed_tokens", stored.tables().embed_tokens), check("lm_head", stored.tables().lm_head);
  return stored.tables();
}

}  // namespace detail

/// Parameters that nothing is trained of yet: drawn, and what the draft takes from its target.
/// \param target  on the host, still to be read, or a cache of what it said
/// \throws Error on a target with a number that is not finite
template <class Method, Device D, class From>
auto fresh_draft(const D& device, const TrainSettings& settings, const From& target) {
  using Fresh = Parameters<typename Method::Draft, typename Method::value_type>;
  const auto& tables = detail::finite_tables<typename Method::Target>(target);
  Fresh parameters;
  parameters.initialize(settings.seed, Fresh::default_deviation, [&](index_t count, auto&& body) {
    run_each(device, count, [&](const D&, index_t i) { body(i); });
  });
  Method::initialize(settings, tables, parameters);
  return parameters;
}

}  // namespace K3SPEC_NAMESPACE

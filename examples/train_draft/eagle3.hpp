#pragma once
/// \file
/// A run of an EAGLE-3 draft.
/// defines: choose_vocabulary, train_eagle3

#include <cstdint>
#include <utility>
#include <vector>

#include <k3spec/run/eagle3_method.hpp>

#include "../common/notes.hpp"
#include "run.hpp"

namespace k3spec::examples {

/// The map of a draft that is there already, or the tokens that the training data has most often, of those it teaches.
template <class Config>
DraftVocabulary choose_vocabulary(const Job& job, const TokenData& data) {
  constexpr index_t size = Config::draft_vocab_size, all = Config::vocab_size;
  const auto& given = job.options.vocabulary_from;
  if (job.resumed || given) {
    return DraftVocabulary::read(io::ModelTensors::open(job.resumed ? *job.resumed : found_draft(*given)), size, all);
  }
  std::vector<std::int64_t> counts(static_cast<std::size_t>(all));
  data.count_supervised(counts);
  return DraftVocabulary::most_frequent(counts, size);
}

template <class Config, class T, class D>
int train_eagle3(const Job& job) {
  using Trainer = Eagle3Trainer<TargetConfig, Config, T, D>;
  return run<Trainer>(job, [&](const TokenData& data) {
    const auto conventions = conventions_of<DraftKind::eagle3>(job);
    auto layers = layers_of<typename Trainer::Draft>(job, conventions);
    return typename Trainer::Setup{choose_vocabulary<Config>(job, data), std::move(layers), conventions};
  });
}

}  // namespace k3spec::examples

#include <span>
#include <vector>

#include <k3spec/train/eagle3_method.hpp>

#include "run.hpp"

namespace k3spec::examples {

namespace {

using Trainer = Eagle3Trainer<TargetConfig, TargetConfig, float>;

/// The most frequent bytes of the training text; a resumed run keeps its own.
DraftVocabulary choose_vocabulary(const Job& job, const ByteText& text) {
  constexpr index_t size = TargetConfig::draft_vocab_size, all = TargetConfig::vocab_size;
  if (job.resumed) return DraftVocabulary::read(io::Checkpoint::open(*job.resumed), size, all);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(all));
  count_tokens(text.bytes(), std::span(counts));
  return DraftVocabulary::most_frequent(counts, size);
}

}  // namespace

void train_eagle3(const Job& job) {
  run<Trainer>(job, [&](const ByteText& text) {
    return Trainer::Setup{choose_vocabulary(job, text), layers_of<Trainer::Draft>(job, [] {
                            return default_aux_layer_ids(TargetConfig::num_hidden_layers);
                          })};
  });
}

}  // namespace k3spec::examples

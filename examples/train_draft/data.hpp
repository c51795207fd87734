#pragma once
/// \file
/// The data of a run, opened before a target is loaded, and what there is to say of it.
/// defines: data_text, open_data

#include <string>
#include <utility>
#include <vector>

#include <k3spec/batches/token_data.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/run/text_cutter.hpp>

#include "../common/program.hpp"
#include "../common/token_files.hpp"
#include "flags.hpp"
#include "options.hpp"

namespace k3spec::examples {

/// "1000 tokens, 600 of them to learn, in 7 documents", and how they make windows.
inline std::string data_text(const TokenData& data, const TrainSettings& s) {
  std::string text = fmt::format("{} {}", data.size(), data.unit());
  if (data.has_mask()) text += fmt::format(", {} of them to learn", data.supervised());
  if (data.has_documents()) text += fmt::format(", in {} documents", data.document_ends().size());
  if (s.sampling == WindowSampling::random) return text;
  text += fmt::format("; {} windows of {}", windows_of(data, s), s.length);
  if (s.sampling == WindowSampling::shuffled) return text + fmt::format(", {} left out", data.size() % s.length);
  const PackedWindows::Counts counts = data.packed(s.length).counts();
  const index_t all = counts.tokens + counts.padding;
  return text + fmt::format(": {} documents whole, {} cut, {} empty ones left out, {} of padding ({:.1f} %)",
                            counts.whole, counts.cut, counts.empty, counts.padding,
                            all == 0 ? 0 : 100 * static_cast<double>(counts.padding) / static_cast<double>(all));
}

/// Opens what is learnt from and what is measured on; with --epochs, the number of steps is known then.
/// \returns both
inline std::pair<TokenData, TokenData> open_data(Options& o) {
  std::vector<std::filesystem::path> files{o.train};
  for (const HeldoutFile& file : o.heldout_files) files.push_back(file.path);
  refuse_idle_bin(o.bin_type, files);
  const TokenData train(o.train, TargetConfig::vocab_size, o.bin_type);
  const TokenData heldout(o.heldout, TargetConfig::vocab_size, o.bin_type);
  if (o.epochs) {
    check_windows(train, o.settings, 1);
    check_flags(o, [&] {
      o.settings.schedule.total_steps = steps_of_epochs(train, o.settings, *o.epochs);
      o.settings.check();
    });
  }
  const bool plain = !train.has_mask() && !train.has_documents() && o.settings.sampling == WindowSampling::random;
  if (!plain) fmt::print("training data: {}\n", data_text(train, o.settings));
  return {train, heldout};
}

}  // namespace k3spec::examples

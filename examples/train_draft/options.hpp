#pragma once
/// \file
/// What train_draft is asked for, and the run that every kind of draft makes of it.
/// defines: Options, Job, train

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <k3spec/batches/token_data.hpp>
#include <k3spec/config/draft_kind.hpp>
#include <k3spec/config/parallel_options.hpp>
#include <k3spec/core/device.hpp>
#include <k3spec/io/checkpoint_directory.hpp>
#include <k3spec/run/train_settings.hpp>

#include "../common/compiled_in.hpp"
#include "../common/program.hpp"
#include "../common/stop_signals.hpp"
#include "../common/weights.hpp"
#include "heldout.hpp"

namespace k3spec::examples {

struct Options {
  std::filesystem::path target, features, train, heldout, out, log;
  std::vector<std::string> heldout_given;
  std::vector<HeldoutFile> heldout_files;  ///< the first one is `heldout`
  TrainSettings settings;
  double minutes = 2;
  std::optional<double> epochs;   ///< to train, instead of minutes or steps
  std::optional<DType> bin_type;  ///< of the tokens in files *.bin
  index_t eval_every = 50, eval_windows = 32, save_every = 200, keep = 2;
  std::optional<index_t> early_stop;  ///< looks without a better one that end the run
  std::vector<index_t> layers;        ///< empty: the kind's own
  AuxStream aux_stream = AuxStream::running_sum;
  LayerIds layer_ids = LayerIds::after_layer_0;
  std::string dtype = std::string(dtype_names.front());  ///< of dtype_names
  // Of the draft's type, if flags say so.
  Backbone backbone = Backbone::kimi_k3;
  std::string version = "3", config;
  std::optional<std::filesystem::path> vocabulary_from;
  ParallelOptions parallel;
  bool resume = false, other_data = false;
  std::optional<std::filesystem::path> init_from;
  /// A resumed run's steps, if they are to be others than it was begun for.
  std::optional<index_t> total_steps;
  std::string draft = examples::name_of(draft_types.front().kind), progress = "auto";
  DeviceOptions device;
  KeepWeights weights = KeepWeights::native;
  /// The options behind the settings that a checkpoint carries, by the settings' names there.
  std::map<std::string, CLI::Option*> flags;
  /// What the command line calls these and the options of parallelism.
  std::map<std::string, std::string> names;
  CLI::Option *draft_flag = nullptr, *minutes_flag = nullptr, *epochs_flag = nullptr, *backbone_flag = nullptr,
              *version_flag = nullptr, *weights_flag = nullptr, *eval_windows_flag = nullptr;
  CLI::Option *config_flag = nullptr, *vocabulary_flag = nullptr, *dtype_flag = nullptr;
  /// What a run that has a draft already takes from it.
  std::vector<CLI::Option*> draft_only;
  bool timed = false;

  /// Batches of held-out text that are looked at, and windows, if there are so many.
  index_t eval_batches() const { return std::max<index_t>(1, eval_windows / settings.batch); }
  index_t windows_of_look() const { return eval_batches() * settings.batch; }
};

/// A run to make, all settings checked.
struct Job {
  Options options;
  Cpu cpu;  ///< for what is done on the host, wherever the draft is
  TokenData train, heldout;
  std::vector<HeldoutSet> further;                 ///< looked at beside `heldout`
  std::optional<std::filesystem::path> resumed;    ///< the checkpoint to go on with
  std::optional<std::filesystem::path> init_from;  ///< the draft to begin with
  const StopSignals& stop;
  CheckpointDirectory& checkpoints;  ///< taken for this run
};

/// Makes the run with a draft of this type. Defined in draft.hpp, for each type in a unit of its own: together they
/// would take a compiler minutes. \returns the exit status
/// \tparam T  of the draft's parameters and activations
/// \tparam D  where they are: on a card, the target runs on the host beside it
template <class Config, class T, class D>
int train(const Job& job);

}  // namespace k3spec::examples

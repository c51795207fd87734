// Writes what a target says of the windows of its data, for train_draft --features. Compiled for the types that
// k3spec_add_programs names.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/io/outputs.hpp>
#include <k3spec/io/target_config.hpp>
#include <k3spec/run/capture.hpp>
#include <k3spec/run/capture_folder.hpp>
#include <k3spec/run/run_sources.hpp>
#include <k3spec/target/load.hpp>

#include "common/compiled_in.hpp"
#include "common/memory.hpp"
#include "common/notes.hpp"
#include "common/places.hpp"
#include "common/program.hpp"
#include "common/run_folder.hpp"
#include "common/stop_signals.hpp"
#include "common/token_files.hpp"
#include "common/weights.hpp"
#include "train_draft/default_layers.hpp"

using namespace k3spec;
using examples::TargetConfig;
using examples::UsageError;
namespace fs = std::filesystem;

namespace {

using Target = K3Target<TargetConfig>;
constexpr index_t shard_bytes = index_t{1} << 26;

struct Options {
  fs::path target, train, heldout, out;
  std::optional<DType> bin_type;
  std::string draft = examples::name_of(examples::draft_types.front().kind), config, dtype = "float";
  std::vector<index_t> layers;
  AuxStream aux_stream = AuxStream::running_sum;
  LayerIds layer_ids = LayerIds::after_layer_0;
  index_t length = TrainSettings{}.length, batch = TrainSettings{}.batch, eval_windows = 32, shard_windows = 0;
  Packing packing = Packing::none;
  WindowSampling sampling = WindowSampling::shuffled;
  CLI::Option* draft_flag = nullptr;
  examples::DeviceOptions device;
  KeepWeights weights = KeepWeights::native;
};

void add_flags(examples::Arguments& arguments, Options& o) {
  std::vector<std::string> types;
  for (const examples::DraftType& type : examples::draft_types) types.emplace_back(type.name);
  arguments.path("--target", o.target, "The target's checkpoint, a directory")->required();
  arguments.path("--train", o.train, examples::token_files_help("Data to train on [TARGET/train.txt]: "));
  arguments.path("--heldout", o.heldout, "Data to measure on, of any of these kinds [TARGET/heldout.txt]");
  examples::add_bin_option(arguments, o.bin_type);
  arguments.path("--out,--output", o.out, "Folder to write; a capture that was ended goes on there")->required();
  o.draft_flag =
      arguments.one_of("--draft", o.draft, {"eagle3", "dflash", "dspark"}, "The kind of draft that is to be trained");
  arguments.one_of("--config", o.config, types, "The draft's type, where several of a kind are compiled in");
  arguments.list("--layers", o.layers, Range<index_t>{}, "The target's layers, as train_draft has them [the kind's]");
  arguments.named("--layer-ids", o.layer_ids, "What layer id i is, as train_draft has it");
  arguments.named("--aux-stream", o.aux_stream, "What a layer's state is, as train_draft has it");
  arguments.number("--length", o.length, TrainSettings::length_range, "Tokens a window");
  arguments.named("--packing", o.packing, "Whether windows are several documents, as train_draft has it");
  arguments.named("--sampling", o.sampling,
                  "Which windows the data has: one behind the other, or packed; random ones cannot be captured");
  arguments.number("--eval-windows", o.eval_windows, Range<index_t>{1}, "Windows of held-out data to capture, at most");
  arguments.number("--batch", o.batch, TrainSettings::batch_range,
                   "Windows that go through the target together; the results do not depend on it");
  arguments.one_of("--dtype", o.dtype, {"float", "bfloat16", "float8_e4m3fn"},
                   "What the states are written as; of narrower ones a run has other bits than beside the target");
  arguments.number("--shard-windows", o.shard_windows, Range<index_t>{1}, "Windows of a file")
      ->default_str("as many as make 64 MB");
  examples::add_weights_option(arguments, o.weights);
  examples::add_device_options(arguments, o.device);
  arguments.add_to_footer(
      "On SIGINT (130), SIGTERM (143) and SIGHUP (129) it finishes the file it is at; the same command goes on, also "
      "after\na crash, and comes to the same bytes.");
}

/// \throws UsageError on windows that cannot be captured
TrainSettings settings_of(const Options& o) {
  if (o.sampling == WindowSampling::random) {
    throw UsageError("--sampling", "random: a run takes other pieces of the data in each epoch",
                     "shuffled or packed, whose windows are the same in all");
  }
  TrainSettings s;
  s.batch = o.batch, s.length = o.length, s.packing = o.packing, s.sampling = o.sampling;
  try {
    s.check();
  } catch (const Error& e) {
    throw UsageError("--" + e.subject(), e.found(), e.wanted());
  }
  return s;
}

/// The states that a type of draft reads. \param plan  gets them, and their names
template <class Config>
void take_taps(const Options& o, FeaturePlan& plan) {
  constexpr DraftKind kind = examples::draft_kind_of<Config>();
  constexpr index_t all = TargetConfig::num_hidden_layers;
  typename DraftForm<kind>::Conventions conventions;
  conventions.aux_stream = plan.aux_stream = o.aux_stream;
  conventions.layer_ids = plan.layer_ids = o.layer_ids;
  plan.layers = o.layers;
  if (plan.layers.empty()) {
    plan.layers = examples::default_layers([] { return examples::default_layers_of<Config>(all); });
    for (index_t& layer : plan.layers) layer = layer_id(layer, o.layer_ids);
  }
  try {
    if constexpr (kind == DraftKind::eagle3) {
      plan.taps = eagle3_taps(plan.layers, all, conventions);
    } else {
      plan.taps = block_taps(plan.layers, all, conventions);
    }
  } catch (const Error& e) {
    throw UsageError("--layers: " + e.subject(), e.found(), e.wanted());
  }
}

std::size_t draft_type(const Options& o) {
  constexpr auto& kinds = names_of<DraftKind>;
  examples::DraftWish wish{static_cast<DraftKind>(std::find(kinds.begin(), kinds.end(), o.draft) - kinds.begin())};
  wish.name = o.config;
  for (const examples::DraftType& type : examples::draft_types) {
    if (o.draft_flag->count() == 0 && type.name == o.config) wish.kind = type.kind;
  }
  try {
    return choose_draft(examples::draft_types, wish);
  } catch (const Error& e) {
    throw UsageError(e);
  }
}

/// All but the target's fingerprint.
FeaturePlan plan_of(const Options& o, const Cpu& cpu, const TrainSettings& s, const TokenData& train,
                    const TokenData& heldout, FeaturePlan plan) {
  check_windows(train, s, 1), check_windows(heldout, s, 1);
  plan.target = io::target_config_json<complete_target_t<TargetConfig>>(dtype_of<float>);
  plan.dtype = o.dtype == "float" ? DType::F32 : o.dtype == "bfloat16" ? DType::BF16 : DType::F8_E4M3;
  plan.length = o.length, plan.packing = o.packing, plan.sampling = o.sampling;
  plan.training = data_fingerprint(cpu, train, o.packing), plan.held_out = data_fingerprint(cpu, heldout, o.packing);
  plan.training_windows = windows_of(train, s);
  plan.held_out_windows = std::min(o.eval_windows, windows_of(heldout, s));
  const auto window = static_cast<index_t>(plan.bytes_per_token(Target::hidden)) * o.length;
  plan.shard_windows = o.shard_windows > 0 ? o.shard_windows : std::max<index_t>(1, shard_bytes / window);
  return plan;
}

/// \returns whether nothing is left to do
bool is_whole(const CaptureFolder& folder, const FeaturePlan& plan) {
  folder.check(plan);
  if (!folder.found() || !folder.found()->whole()) return false;
  for (const FeatureManifest::File& file : folder.found()->files()) {
    std::error_code failed;
    if (fs::file_size(folder.path() / file.name, failed) != file.bytes || failed) return false;
  }
  return true;
}

/// "1.2 GB in 9 files, 2060 bytes per token"
std::string sizes_text(const FeaturePlan& plan) {
  const std::uint64_t each = plan.bytes_per_token(Target::hidden);
  const auto tokens = static_cast<std::uint64_t>(plan.windows() * plan.length);
  return fmt::format("{} of states in {} files, {} bytes per token", examples::size_text(each * tokens), plan.shards(),
                     each);
}

/// \returns the exit status
int capture(Options o, const examples::StopSignals& stop) {
  const TrainSettings s = settings_of(o);
  FeaturePlan plan;
  examples::with_draft(draft_type(o), [&]<class Config> { take_taps<Config>(o, plan); });
  const Cpu cpu = examples::make_host(o.device);
  if (o.train.empty()) o.train = o.target / "train.txt";
  if (o.heldout.empty()) o.heldout = o.target / "heldout.txt";
  examples::refuse_idle_bin(o.bin_type, {o.train, o.heldout});
  examples::check_output_folder("--out", o.out);
  examples::refuse_run_folder({"--out", o.out});
  io::refuse_inputs({"--out", o.out}, {{"--target", o.target}, {"--train", o.train}, {"--heldout", o.heldout}});
  CaptureFolder folder(o.out);
  const TokenData train(o.train, TargetConfig::vocab_size, o.bin_type);
  const TokenData heldout(o.heldout, TargetConfig::vocab_size, o.bin_type);
  plan = plan_of(o, cpu, s, train, heldout, std::move(plan));
  if (folder.found()) plan.target_fingerprint = folder.found()->plan().target_fingerprint;
  folder.check(plan);  // the rest, before the target is read for its fingerprint
  const TargetCheckpoint<TargetConfig, float> checkpoint(o.target, io::named({}), o.weights);
  examples::say_notes(checkpoint.notes());
  plan.target_fingerprint = host_fingerprint<Target>(cpu, checkpoint.weights());
  fmt::print("{} windows of {} tokens and {} held out: {}\n", plan.training_windows, plan.length, plan.held_out_windows,
             sizes_text(plan));
  if (is_whole(folder, plan)) {
    fmt::print("features: {}: nothing is left to do\n", printable(o.out.string()));
    return 0;
  }
  const StatesSize size{o.batch, o.length, o.packing};
  using States = TargetStates<TargetConfig, float>;
  examples::check_memory(
      "--batch, --length and --shard-windows",
      States::bytes(size, static_cast<index_t>(plan.taps.size())) +
          TargetState<TargetConfig, float>::bytes({o.batch, o.length, 0}) +
          sizeof(float) * static_cast<std::uint64_t>(parameter_count<Target>) +
          FeatureCapture<TargetConfig, float>::bytes(plan, o.batch, std::max(train.size(), heldout.size())));
  FeatureCapture<TargetConfig, float> work(cpu, std::move(folder), plan, o.batch);
  States states(TeachingTarget<TargetConfig, float>(cpu, checkpoint.weights()), plan.taps, size, cpu);
  fmt::print("{}\n", examples::device_text(o.device));
  const auto begun = std::chrono::steady_clock::now();
  const bool whole = work.run(states, train, heldout, [&](index_t shards, index_t kept) {
    const index_t made =
        std::min(shards * plan.shard_windows, plan.windows()) - std::min(kept * plan.shard_windows, plan.windows());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    fmt::print("{} of {} files, {:.0f} tokens/s\n", shards, plan.shards(),
               static_cast<double>(made * plan.length) / std::max(seconds, 1e-9));
    std::fflush(stdout);
    return stop.received() == 0;
  });
  if (whole) {
    fmt::print("features: {}\n", printable(o.out.string()));
    return 0;
  }
  fmt::print("stopped by {}: the same command goes on\n", examples::StopSignals::name(stop.received()));
  return examples::StopSignals::status(stop.received());
}

}  // namespace

int main(int argc, char** argv) {
  const char* about = "Writes what a Kimi K3 target says of the windows of its data, to train drafts from.";
  return examples::run_program("capture", about, [&](examples::Arguments& arguments) {
    Options options;
    add_flags(arguments, options);
    arguments.parse(argc, argv);
    const examples::StopSignals stop;
    return capture(options, stop);
  });
}

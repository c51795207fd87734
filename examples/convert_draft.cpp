// Rewrites a DeepSeek-V3 EAGLE-3 draft in the layout that vLLM and SGLang load, or one of that layout in this library's
// own, both in bfloat16; --from nemo does the latter for Kimi K3's drafts that NeMo Automodel wrote. With --probe also
// inputs and the logits that this library computes from what it wrote, for a comparison in another framework
// (tests/reference/compare_export.py is one).

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <k3spec/core/finite.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/draft_checkpoint.hpp>
#include <k3spec/io/engine_layout.hpp>
#include <k3spec/io/outputs.hpp>

#include "common/compiled_in.hpp"
#include "common/nemo_draft.hpp"
#include "common/notes.hpp"
#include "common/places.hpp"
#include "common/program.hpp"
#include "common/run_folder.hpp"

using namespace k3spec;
namespace fs = std::filesystem;

namespace {

constexpr index_t probe_length = 21, probe_sequences = 2, probe_steps = 4;
constexpr const char* probe_inputs = "aux_hidden_states";

struct Options {
  fs::path draft, out, probe, target;
  std::string layout = "engine";
  LayerIds layer_ids = LayerIds::layers_executed;
  bool embed_tokens = true;
  /// Of a file that names none.
  AuxStream assumed_stream = AuxStream::running_sum;
  LayerIds assumed_ids = LayerIds::layers_executed;
  bool assume = false;
  WrittenBy from = WrittenBy::k3spec;
  std::vector<index_t> assumed_layers;
};

/// A draft's folder, with what a file of another engine's need not say.
template <class Draft, Element T>
LoadedDraft<Draft, T> load(const fs::path& folder, const Options& o) {
  std::vector<T> embedding;
  LoadGiven<Draft, T> given;
  if (!o.target.empty()) {
    const auto target = io::ModelTensors::open(o.target, "language_model.");
    const char* name = "model.embed_tokens.weight";
    // As many elements in another shape are another target's.
    const std::vector<index_t> shape{Draft::vocabulary, Draft::hidden};
    target.file(name).check(target.stored_name(name), shape, dtype_of<T>);
    embedding = target.read<T>(name);
    given.embed_tokens = Matrix<const T>(embedding.data(), shape[0], shape[1]);
  }
  if (o.assume) {
    given.conventions = DraftForm<Draft::kind>::template conventions<typename Draft::config>();
    given.conventions->aux_stream = o.assumed_stream;
    given.conventions->layer_ids = o.assumed_ids;
  }
  auto draft = load_draft<Draft, T>(folder, given);
  require_finite<Draft>(draft.parameters.weights(), folder.string());
  return draft;
}

/// Inputs drawn from a fixed seed, and what the draft that was written makes of them in double precision.
template <class Config>
void write_probe(const Options& o) {
  using Draft = Eagle3Draft<Config>;
  const auto draft = load<Draft, double>(o.out, o);
  const index_t rows = probe_sequences * probe_length;
  Buffer<index_t> ids(rows);
  Buffer<double> aux(rows * Draft::aux_width);
  const Philox random(/*seed=*/1, /*stream=*/0);
  for (index_t i = 0; i < rows; ++i) {
    ids[i] = static_cast<index_t>(random.below(static_cast<std::uint64_t>(i), Draft::vocabulary));
  }
  for (index_t i = 0; i < aux.size(); ++i) aux[i] = random.normal(static_cast<std::uint64_t>(rows + i));

  const auto plan = [&](auto& a) { return Draft::template Activations<double>::allocate(a, rows, probe_steps); };
  Arena arena(plan_bytes(plan));
  const auto acts = plan(arena);
  const Rows<const double, Draft::aux_width> states(aux.data(), rows);
  const Vector<const index_t> tokens(ids.data(), rows);
  const auto w = draft.parameters.weights();
  Draft::template forward<double>(Cpu{1}, w,
                                  typename Draft::template Inputs<double, CausalVisibility>{
                                      tokens, probe_length, states, CausalVisibility{nullptr, probe_length},
                                      RotaryPositions{nullptr, probe_length}},
                                  acts);

  std::vector<io::TensorSource> tensors{
      {"input_ids", DType::I64, {probe_sequences, probe_length}, ids.data()},
      {probe_inputs, DType::F64, {probe_sequences, probe_length, Draft::aux_width}, aux.data()}};
  if (!o.embed_tokens) {
    tensors.push_back({"embed_tokens.weight", DType::F64, {Draft::vocabulary, Draft::hidden}, w.embed_tokens.data()});
  }
  std::vector<Buffer<double>> logits;
  Buffer<double> x(rows * Draft::hidden);
  const Rows<double, Draft::hidden> head_in(x.data(), rows);
  for (index_t k = 0; k < probe_steps; ++k) {
    logits.emplace_back(rows * Draft::draft_vocabulary);
    Draft::head_input(Cpu{1}, w, acts.step(k).out, head_in);
    Draft::compute_logits(Cpu{1}, w, head_in, Rows<double, Draft::draft_vocabulary>(logits.back().data(), rows));
    tensors.push_back({"logits." + std::to_string(k),
                       DType::F64,
                       {probe_sequences, probe_length, Draft::draft_vocabulary},
                       logits.back().data()});
  }
  io::write_safetensors(o.probe, tensors, {});
}

/// What this program writes into a draft's file, by which it knows it again.
const std::pair<const std::string, std::string> mark{"written_by", "convert_draft"};

/// Whether a safetensors file is one of which `is_own(file)` holds.
template <class F>
bool is_own_file(const fs::path& path, F&& is_own) {
  try {
    return is_own(io::SafetensorsFile::open(path));
  } catch (const Error&) {  // something else
    return false;
  }
}

/// Whether a file says of itself that it is a draft's.
bool is_draft_config(const fs::path& path) {
  try {
    return io::draft_kind(io::read_json(path)).has_value();
  } catch (const Error&) {  // something else
    return false;
  }
}

/// \throws Error when a file would come where one is that is read, or that this program did not write
void check_outputs(const Options& o) {
  std::vector<io::NamedPath> inputs{{"--draft", o.draft}};
  if (!o.target.empty()) inputs.push_back({"--target", o.target});
  io::refuse_inputs({"--out", o.out}, inputs);
  examples::refuse_run_folder({"--out", o.out});
  const fs::path weights = o.out / io::ModelTensors::single_name, config = o.out / draft_config_name;
  const auto is_draft = [&](const fs::path&) {
    return is_own_file(weights, [](const auto& file) { return file.metadata().count(mark.first) != 0; });
  };
  io::refuse_other_files({"--out", weights}, inputs, "a draft of convert_draft's", is_draft);
  io::refuse_other_files({"--out", config}, inputs, "a draft of convert_draft's",
                         [&](const fs::path& path) { return is_draft(weights) && is_draft_config(path); });
  if (o.probe.empty()) return;
  examples::refuse_runs_own({"--probe", o.probe});
  for (const fs::path& file : {weights, config}) {
    const fs::path within = io::whole_path(file).lexically_relative(io::whole_path(o.probe));
    if (within.empty() || *within.begin() == "..") continue;
    const char* which = within == "." ? ", which is also a file of --out" : ", a folder that --out makes or lies in";
    throw Error("--probe", o.probe.string() + which, "another one");
  }
  io::refuse_other_files({"--probe", o.probe}, inputs, "a probe", [](const fs::path& path) {
    return is_own_file(path, [](const auto& file) { return file.contains(probe_inputs) && file.contains("logits.0"); });
  });
}

/// \throws Error on the engines' layout for a draft that they would compute otherwise
template <class Config, class Loaded>
void save_as_engines_do(const Options& o, const Loaded& draft) {
  if constexpr (Config::mla_norm_eps == Config::rms_norm_eps) {
    save_engine_draft(o.out, draft.parameters, draft.vocabulary, draft.layer_ids, draft.conventions,
                      {.layer_ids = o.layer_ids, .embed_tokens = o.embed_tokens}, {mark});
  } else {
    throw Error("--layout", "engine for a draft whose mla_norm_eps is another than its rms_norm_eps",
                "k3spec: engines norm latents with the latter");
  }
}

template <class Config>
void convert(const Options& o) {
  using Draft = Eagle3Draft<Config>;
  const auto draft = load<Draft, bfloat16>(o.draft, o);
  examples::say_notes(draft.notes);
  std::error_code failed;
  fs::create_directories(o.out, failed);
  if (failed) throw Error(o.out.string(), failed.message(), "a directory that can be created");
  if (o.layout == "engine") {
    save_as_engines_do<Config>(o, draft);
  } else {
    save_draft(o.out, draft.parameters, draft.vocabulary,
               io::draft_config_json<DraftKind::eagle3, Config>(draft.layer_ids, DType::BF16, draft.conventions),
               {mark});
  }
  fmt::print("{} layout: {}\n", o.layout, printable(o.out.string()));
  if (!o.probe.empty()) write_probe<Config>(o);
}

void convert_from_nemo(const Options& o) {
  check_outputs(o);
  examples::NemoDraft nemo{.draft = o.draft, .out = o.out, .layer_ids = o.assumed_layers, .metadata = {mark}};
  if (o.assume) nemo.aux_stream = o.assumed_stream, nemo.counting = o.assumed_ids;
  examples::convert_nemo_draft(nemo);
  fmt::print("k3spec layout: {}\n", printable(o.out.string()));
}

void convert(const Options& o) {
  const auto file = draft_folder(o.draft).path / draft_config_name;
  const io::json config = io::read_json(file);
  if (io::nemo_kind(config)) {
    throw Error(file.string(), "a draft that NeMo Automodel wrote, which leaves fields unsaid", "--from nemo with it");
  }
  if (io::draft_kind(config) != DraftKind::eagle3) {
    throw Error(file.string() + ": architectures",
                io::detail::field_text(io::detail::find_field(config, "architectures")), "an EAGLE-3 draft's");
  }
  if (io::draft_backbone(config) != Backbone::deepseek_v3) {
    throw Error(file.string() + ": architectures", "a Kimi K3 draft",
                "one with DeepSeek-V3's block: engines have no loader for drafts without positions");
  }
  const std::size_t type = examples::draft_type_of(config, file.string());
  check_outputs(o);
  examples::with_draft(type, [&]<class Config> {
    constexpr bool eagle3 = examples::draft_kind_of<Config>() == DraftKind::eagle3;
    if constexpr (eagle3 && Config::backbone == Backbone::deepseek_v3) convert<Config>(o);
  });
}

/// Flags that do not go together. \param of_engines  that the other layout has no use for
void refuse_pairs(const Options& o, const CLI::Option* layout, const std::vector<const CLI::Option*>& of_engines) {
  const bool nemo = o.from == WrittenBy::nemo;
  if (nemo && layout->count() > 0 && o.layout == "engine") {
    throw examples::UsageError("--layout", "engine with --from nemo",
                               "k3spec: engines have no loader for drafts without positions");
  }
  for (const CLI::Option* flag : of_engines) {
    if ((!nemo && o.layout == "engine") || flag->count() == 0) continue;
    throw examples::UsageError(flag->get_name(), nemo ? "it with --from nemo" : "it with --layout k3spec",
                               "--layout engine");
  }
  if (!nemo && !o.assumed_layers.empty()) throw examples::UsageError("--assume-layers", "it alone", "--from nemo");
  if (nemo && !o.probe.empty()) {
    throw examples::UsageError("--probe", "it with --from nemo", "--layout engine, whose files others load");
  }
  if (nemo && !o.target.empty()) throw examples::UsageError("--target", "it with --from nemo", "a draft that has none");
}

int run(int argc, char** argv, examples::Arguments& arguments) {
  Options o;
  arguments.path("--draft", o.draft, "Folder of the draft, in either layout")->required();
  arguments.path("--out,--output", o.out, "Folder to write")->required();
  const auto* layout = arguments.one_of("--layout", o.layout, {"engine", "k3spec"},
                                        "engine: what vLLM and SGLang load; k3spec: this library's own");
  const auto* layer_ids =
      arguments.named("--layer-ids", o.layer_ids,
                      "engine: how the file counts the target's layers; layers_executed is how vLLM, SGLang and "
                      "tokenspeed read a Kimi K3 draft's");
  const auto* bare =
      arguments.toggle("--no-embed-tokens", o.embed_tokens, "engine: leave the embedding to the target", false);
  arguments.path("--target", o.target, "Target whose embedding is the draft's, for a file that has none");
  const auto* stream = arguments.named("--assume-aux-stream", o.assumed_stream,
                                       "What a file's draft reads if the file does not name it");
  const auto* ids = arguments.named("--assume-layer-ids", o.assumed_ids,
                                    "How a file counts the target's layers if it does not name it");
  arguments.named("--from", o.from, "nemo: the draft is one of Kimi K3's own block that NeMo Automodel wrote");
  arguments.list("--assume-layers", o.assumed_layers, Range<index_t>{},
                 "nemo: the target's layers that an EAGLE-3 draft reads, unless its recipe left them to NeMo");
  arguments.path("--probe", o.probe, "File for inputs and this library's logits");
  arguments.parse(argc, argv);

  if (stream->count() != ids->count()) {  // half of it would be a guess
    const auto* given = stream->count() > 0 ? stream : ids;
    throw examples::UsageError(given->get_name(), "it alone", "--assume-aux-stream and --assume-layer-ids together");
  }
  o.assume = stream->count() > 0;
  refuse_pairs(o, layout, {layer_ids, bare});
  examples::check_output_folder("--out", o.out);
  if (!o.probe.empty()) examples::check_output_file("--probe", o.probe, o.out);
  o.from == WrittenBy::nemo ? convert_from_nemo(o) : convert(o);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_program("convert_draft", "Rewrites a DeepSeek-V3 EAGLE-3 draft in another layout, in bfloat16",
                               [&](examples::Arguments& arguments) { return run(argc, argv, arguments); });
}

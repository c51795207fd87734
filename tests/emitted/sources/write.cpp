// Writes every config of presets.hpp as config.json, and that as a header, all into one file. $1: the file.

#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <string>
#include <vector>

#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/emit_config.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/target/k3_target.hpp>

#include "presets.hpp"
#include "tests/support/target_json.hpp"

using namespace k3spec;

namespace {

std::string header(const io::json& config, const char* name, index_t parameters) {
  // What is read is the text of a file.
  const io::json read = io::parse_json(config.dump(2), "config.json");
  const io::EmittedModel model = io::read_model({read});
  return io::emitted_header(model, io::type_name(std::string("emitted::of::") + name, "name"), name,
                            static_cast<std::uint64_t>(parameters));
}

/// Holds the tensors that a target's members say against those of its type. \throws Error
template <class Config>
void check_roster(const char* name) {
  const io::EmittedModel model = io::read_model({test::target_json<Config>()});
  std::map<std::string, std::uint64_t> said, wanted;
  std::uint64_t all = 0;
  io::detail::walk_target_tensors(model.members, [&](const std::string& tensor, std::uint64_t numbers) {
    said[tensor] = numbers;
    all += numbers;
  });
  require(all == static_cast<std::uint64_t>(parameter_count<K3Target<Config>>), name, std::to_string(all),
          std::to_string(parameter_count<K3Target<Config>>) + " parameters");
  if constexpr (Config::num_experts < 100) {  // no compiler would visit all of the published model
    typename K3Target<Config>::template Weights<Unread<float>> weights;
    for (const auto& slot : io::slots<K3Target<Config>>(weights)) {
      wanted[slot.name] = *io::byte_count(slot.dtype, slot.shape) / size_of(slot.dtype);
    }
    require(said == wanted, name, "other tensors than its type has", "the same");
  }
}

template <DraftKind Kind, class Config>
io::json draft_json() {
  std::vector<index_t> layers;
  for (index_t i = 0; i < DraftForm<Kind>::template target_layers<Config>; ++i) layers.push_back(2 * i);
  return io::draft_config_json<Kind, Config>(layers, DType::BF16);
}

template <DraftKind Kind, class Config>
constexpr index_t draft_parameters() {
  if constexpr (Kind == DraftKind::eagle3) return parameter_count<Eagle3Draft<Config>>;
  if constexpr (Kind == DraftKind::dflash) return parameter_count<DFlashDraft<Config>>;
  if constexpr (Kind == DraftKind::dspark) return parameter_count<DSparkDraft<Config>>;
}

// The published file has room for so many bfloat16 numbers, and for a header of 20 tensors.
constexpr index_t left = 6'031'253'592 - 2 * parameter_count<Eagle3Draft<configs::KimiK3Eagle31MLA>>;
static_assert(left > 1000 && left < 4000);

}  // namespace

int main(int, char** argv) try {
  std::string text;
#define TARGET(Config, name)   \
  check_roster<Config>(#name); \
  text += header(test::target_json<Config>(), #name, parameter_count<K3Target<Config>>);
#define DRAFT(kind, Config, name) \
  text += header(draft_json<DraftKind::kind, Config>(), #name, draft_parameters<DraftKind::kind, Config>());
  EMITTED_TARGETS(TARGET)
  EMITTED_DRAFTS(DRAFT)
  io::write_text(argv[1], text);
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

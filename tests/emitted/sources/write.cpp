// Writes every config of presets.hpp as config.json, and that as a header, all into one file. $1: the file.

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/io/emit_config.hpp>
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

}  // namespace

int main(int, char** argv) try {
  std::string text;
#define TARGET(Config, name) text += header(test::target_json<Config>(), #name, parameter_count<K3Target<Config>>);
#define DRAFT(kind, Config, name) \
  text += header(draft_json<DraftKind::kind, Config>(), #name, draft_parameters<DraftKind::kind, Config>());
  EMITTED_TARGETS(TARGET)
  EMITTED_DRAFTS(DRAFT)
  io::write_text(argv[1], text);
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}

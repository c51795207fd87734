#include <k3spec/target/load.hpp>

#include "tests/support/reference_case.hpp"
#include "tests/support/temporary.hpp"

#include "configs.hpp"

using namespace k3spec;

namespace {

/// The target case with experts 32 wide, so that they can be MXFP4.
struct Config : test::Case {
  static constexpr index_t num_hidden_layers = 2;
  static constexpr index_t moe_intermediate_size = 32;
  static constexpr index_t num_experts = 2;
};
using Target = K3Target<Config>;

const std::string expert = "model.layers.1.block_sparse_moe.experts.1.w2.weight";

Parameters<Target, float>& random_parameters() {
  static auto* const parameters = [] {
    auto* p = new Parameters<Target, float>;
    p->initialize(5);
    return p;
  }();
  return *parameters;
}

/// A checkpoint of random weights, as a list that a test can change before it is written.
struct Files : test::TemporaryDirectory {
  Parameters<Target, float>& written = random_parameters();
  Parameters<Target, float> read;
  std::vector<float> longer = std::vector<float>(128, 0.5F);
  std::vector<std::uint8_t> packed = std::vector<std::uint8_t>(32 * 16, 0x21),
                            scale = std::vector<std::uint8_t>(32, 128);
  std::vector<io::TensorSource> sources;

  Files() {
    auto weights = written.mutable_weights();
    sources = io::sources<Target>(weights);
    for (auto& s : sources) s.name = "language_model." + s.name;
  }
  io::TensorSource& at(const std::string& name) {
    for (auto& s : sources) {
      if (s.name == "language_model." + name) return s;
    }
    FAIL("no tensor ", name);
    return sources[0];
  }
  void remove(const std::string& name) {
    const auto* gone = &at(name);
    sources.erase(sources.begin() + (gone - sources.data()));
  }
  /// Replaces an expert by its two MXFP4 parts.
  void pack(const std::string& name) {
    remove(name);
    sources.push_back(
        io::source("language_model." + name + "_packed", View<const std::uint8_t, dyn, dyn>(packed.data(), 32, 16)));
    sources.push_back(
        io::source("language_model." + name + "_scale", View<const std::uint8_t, dyn, dyn>(scale.data(), 32, 1)));
  }
  void load(const io::NamePredicate& ignored = io::named({})) {
    const auto file = *this / "model.safetensors";
    io::write_safetensors(file, sources, {});
    load_target(io::ModelTensors::open(file, "language_model."), read, ignored);
  }
  void refuse(const std::string& message) {
    CHECK_THROWS_WITH_AS(load(), doctest::Contains(message.c_str()), Error);
    const auto w = read.weights();
    CHECK(w.norm(0) == 0.0F);
    const auto straight = [&] {
      load_frozen_target<Config, float>(Cpu{1}, io::ModelTensors::open(*this / "model.safetensors", "language_model."));
    };
    CHECK_THROWS_WITH_AS(straight(), doctest::Contains(message.c_str()), Error);
  }
};

}  // namespace

TEST_CASE("a target's weights are written and read back") {
  Files files;
  CHECK_NOTHROW(files.load());
  auto a = files.written.mutable_weights(), b = files.read.mutable_weights();
  const auto wanted = io::slots<Target>(a), found = io::slots<Target>(b);
  REQUIRE(wanted.size() == found.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::size_t bytes = *io::byte_count(wanted[i].dtype, wanted[i].shape);
    CHECK(std::memcmp(wanted[i].data, found[i].data, bytes) == 0);
  }
}

TEST_CASE("MXFP4 experts are dequantized, a padded A_log cut") {
  Files files;
  files.pack(expert);
  files.at("model.layers.0.self_attn.A_log") =
      io::source("language_model.model.layers.0.self_attn.A_log", View<const float, dyn>(files.longer.data(), 128));
  CHECK_NOTHROW(files.load());
  auto w = files.read.mutable_weights();
  for (io::TensorSlot& slot : io::slots<Target>(w)) {
    const auto* x = static_cast<const float*>(slot.data);
    if (slot.name == expert) CHECK((x[0] == 1.0F && x[1] == 2.0F));
    if (slot.name == "model.layers.0.self_attn.A_log") CHECK((x[0] == 0.5F && x[2] == 0.5F));
  }
}

TEST_CASE("a tensor that is missing, of no use, or of another shape is named, and nothing is written") {
  const auto refuse = [](auto&& change, const std::string& message) {
    Files files;
    change(files);
    files.refuse(message);
  };
  const std::string norm = "model.layers.1.input_layernorm.weight";
  refuse([&](Files& f) { f.remove(norm); }, norm + "': found no such tensor");
  refuse([&](Files& f) { f.remove(expert); }, expert + "': found no such tensor");
  refuse([&](Files& f) { f.at(norm).name += "_old"; }, norm);
  refuse(
      [&](Files& f) {
        f.sources.push_back(io::source("vision_tower.weight", View<const float, dyn>(f.longer.data(), 128)));
      },
      "vision_tower.weight");
  refuse(
      [&](Files& f) { f.at(norm) = io::source("language_model." + norm, View<const float, dyn>(f.longer.data(), 33)); },
      norm);
  refuse([&](Files& f) { f.at("model.layers.0.self_attn.dt_bias").shape = {3, 8}; }, "dt_bias");
  refuse([&](Files& f) { f.pack(expert), f.remove(expert + "_scale"); }, expert + "_scale': found no such tensor");
  refuse([&](Files& f) { f.pack(expert), f.remove(expert + "_packed"); }, expert + "_packed': found no such tensor");
  refuse([&](Files& f) { f.pack(expert), f.at(expert + "_scale").shape = {1, 32}; }, expert + "_scale");
  refuse(
      [&](Files& f) {
        f.pack(expert), f.sources.push_back(io::source("language_model." + expert,
                                                       View<const float, dyn, dyn>(f.longer.data(), 2, 64)));
      },
      expert);
}

TEST_CASE("tensors of other parts of a checkpoint can be ignored") {
  Files files;
  files.sources.push_back(io::source("vision_tower.weight", View<const float, dyn>(files.longer.data(), 128)));
  CHECK_NOTHROW(files.load([](std::string_view name) { return name.substr(0, 7) == "vision_"; }));
}

TEST_CASE("a config.json of another model is refused") {
  static Parameters<K3Target<test::Case>, float> parameters;
  CHECK_THROWS_WITH_AS(load_target(std::filesystem::path(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny"), parameters),
                       doctest::Contains("hidden_size: found 128, wanted 32"), Error);
  const auto straight = [] {
    load_frozen_target<test::Case, float>(Cpu{1}, std::filesystem::path(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny"));
  };
  CHECK_THROWS_WITH_AS(straight(), doctest::Contains("hidden_size: found 128, wanted 32"), Error);
}

TEST_CASE("what is odd about a target's folder but does not matter is noted, of its config.json and of its files") {
  const test::TemporaryDirectory folder;
  for (const auto& entry : std::filesystem::directory_iterator(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny")) {
    std::filesystem::create_symlink(entry.path(), folder / entry.path().filename());
  }
  Parameters<K3Target<configs::KimiK3Tiny>, bfloat16> parameters;
  CHECK(load_target<configs::KimiK3Tiny>(folder.path(), parameters).empty());
  io::json config = io::read_json(folder / "config.json");
  config["text_config"]["residual_multiplier"] = 0.22;
  std::filesystem::remove(folder / "config.json");
  test::write(folder / "config.json", config.dump());
  test::write(folder / "model-00003-of-00002.safetensors", "");
  const auto notes = load_target<configs::KimiK3Tiny>(folder.path(), parameters);
  REQUIRE(notes.size() == 2);
  CHECK(notes[0].find("config.json: not known here") != std::string::npos);
  CHECK(notes[1].find("it does not name model-00003-of-00002.safetensors") != std::string::npos);
  CHECK(load_frozen_target<configs::KimiK3Tiny, bfloat16>(Cpu{1}, folder.path()).notes == notes);
}

TEST_CASE("a file that is cut while a target is read from it is an error") {
  Files files;
  const auto file = files / "model.safetensors";
  io::write_safetensors(file, files.sources, {});
  auto tensors = io::ModelTensors::open(file, "language_model.");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 4);
  const auto load = [&](int threads) { load_frozen_target<Config, float>(Cpu{threads}, tensors); };
  for (const int threads : {1, 2}) {
    CHECK_THROWS_WITH_AS(load(threads), doctest::Contains("which it had when it was opened"), Error);
    CHECK_THROWS_WITH_AS(load(threads), doctest::Contains((file.string() + ": 'language_model.").c_str()), Error);
  }
}

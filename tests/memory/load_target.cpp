// What making a target straight from a checkpoint takes.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include <tests/memory/live_bytes.hpp>
#include <tests/refusals/models.hpp>
#include <tests/support/temporary.hpp>
#include <k3spec/target/load.hpp>

using namespace k3spec;

namespace {

/// Nearly all of it are experts.
struct Config : refusals::Target {
  static constexpr index_t num_experts = 48, moe_intermediate_size = 224, routed_expert_hidden_size = 256;
};
using Target = K3Target<Config>;
constexpr auto as_floats = sizeof(float) * static_cast<std::size_t>(parameter_count<Target>);
/// The largest matrix as it is laid out: gate beside up, of one expert.
constexpr std::size_t one_matrix = sizeof(float) * 2 * 224 * 256;

/// A checkpoint of which all experts are the same.
struct Files : test::TemporaryDirectory {
  std::vector<float> numbers = std::vector<float>(2048, 0.3F);
  std::vector<bfloat16> halves = std::vector<bfloat16>(224 * 256, bfloat16(0.3F));
  std::vector<std::uint8_t> packed = std::vector<std::uint8_t>(224 * 128, 0x21),
                            scale = std::vector<std::uint8_t>(224 * 8, 120);

  io::ModelTensors write(bool mxfp4) {
    auto weights = std::make_unique<typename Target::template Weights<Unread<float>>>();
    std::vector<io::TensorSource> sources;
    for (const io::TensorSlot& slot : io::slots<Target>(*weights)) {
      const auto& shape = slot.shape;
      if (slot.name.find(".experts.") == std::string::npos) {
        sources.push_back({slot.name, DType::F32, shape, numbers.data()});
      } else if (mxfp4) {
        sources.push_back({slot.name + "_packed", DType::U8, {shape[0], shape[1] / 2}, packed.data()});
        sources.push_back({slot.name + "_scale", DType::U8, {shape[0], shape[1] / 32}, scale.data()});
      } else {
        sources.push_back({slot.name, DType::BF16, shape, halves.data()});
      }
    }
    io::write_safetensors(*this / "model.safetensors", sources, {});
    return io::ModelTensors::open(*this / "model.safetensors");
  }
};

}  // namespace

TEST_CASE("a target straight from a checkpoint has each weight once, also while it is made") {
  for (const bool mxfp4 : {true, false}) {
    for (const int threads : {1, 3}) {
      CAPTURE(mxfp4);
      Files files;
      const auto tensors = files.write(mxfp4);
      const std::size_t before = test::live_bytes();
      test::forget_peak();
      const auto target = load_frozen_target<Config, float>(Cpu{threads}, tensors);
      const std::size_t peak = test::peak_bytes() - before, held = test::live_bytes() - before;
      const std::size_t said = target.bytes().all;
      CHECK(said < as_floats / (mxfp4 ? 6 : 2) + as_floats / 50);
      CHECK(held >= said);
      CHECK(held < said + as_floats / 50);
      // Names and places of tensors, and of experts what each thread lays out: of MXFP4 a part of a matrix.
      CHECK(peak < held + as_floats / 50 + static_cast<std::size_t>(threads) * one_matrix / (mxfp4 ? 8 : 1));
    }
  }
}

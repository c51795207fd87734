// A target straight from a checkpoint against one by way of parameters.
#include <doctest/doctest.h>

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tests/support/far_device.hpp"
#include "tests/support/same_bits.hpp"
#include "tests/support/temporary.hpp"

#include "configs.hpp"
#include "k3_tiny.hpp"

using namespace k3spec;

namespace {

/// A single layer of a kind, of odd sizes, but for experts, which can be MXFP4.
template <bool Mla, bool Moe>
struct OneLayer : test::OddCase {
  static constexpr index_t num_hidden_layers = 1;
  static constexpr std::array<index_t, 1> full_attn_layers{Mla ? 1 : 9};
  static constexpr index_t first_k_dense_replace = Moe ? 0 : 1;
  static constexpr index_t moe_intermediate_size = 32, routed_expert_hidden_size = 96, num_experts = 5;
};
template <class Base>
struct OtherForm : test::LowRankGateSoftplus<test::NoResidualMixing<Base>> {};

/// A random checkpoint, as a list of tensors.
template <class Config, class Stored>
struct Files : test::TemporaryDirectory {
  using Target = K3Target<Config>;
  Parameters<Target, Stored> written;
  std::vector<io::TensorSource> sources;
  std::deque<std::vector<std::uint8_t>> bytes;

  Files() {
    written.initialize(7, 0.2);
    auto weights = written.mutable_weights();
    sources = io::sources<Target>(weights);
  }

  /// Makes random MXFP4 of every other tensor of an expert, or of all. \param least, most  of the scales
  void pack_experts(bool all, index_t least, index_t most) {
    const Philox random(11, 3);
    std::uint64_t next = 0;
    const auto draw = [&](index_t below) {
      return static_cast<index_t>(random.uniform(next++) * static_cast<double>(below));
    };
    std::vector<io::TensorSource> others;
    index_t count = 0;
    for (const io::TensorSource& s : sources) {
      if (s.name.find(".experts.") == std::string::npos || (!all && count++ % 2 == 1)) {
        others.push_back(s);
        continue;
      }
      const index_t out = s.shape[0], in = s.shape[1];
      auto& packed = bytes.emplace_back();
      auto& scale = bytes.emplace_back();
      for (index_t i = 0; i < out * in / 2; ++i) packed.push_back(static_cast<std::uint8_t>(draw(256)));
      for (index_t i = 0; i < out * in / 32; ++i)
        scale.push_back(static_cast<std::uint8_t>(least + draw(most - least)));
      others.push_back(io::source(s.name + "_packed", View<const std::uint8_t, dyn, dyn>(packed.data(), out, in / 2)));
      others.push_back(io::source(s.name + "_scale", View<const std::uint8_t, dyn, dyn>(scale.data(), out, in / 32)));
    }
    sources = std::move(others);
  }

  io::ModelTensors open() const {
    const auto file = *this / "model.safetensors";
    io::write_safetensors(file, sources, {});
    return io::ModelTensors::open(file);
  }
};

/// All states and logits of three calls, of which the second is taken back in part.
template <class Config, class T>
std::vector<test::Run<T>> runs(const test::Runner<Config, T>& target) {
  TargetState<Config, T> state({2, 20, 3});
  std::vector<index_t> ids(10);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<index_t>(i * 17 % 49);
  std::vector<test::Run<T>> all{target(state, ids)};
  all.push_back(target(state, {5, 6, 7, 8, 9, 10}));
  state.accept(1);
  all.push_back(target(state, {3, 4}));
  return all;
}

template <class Config, class T>
void check_same(const io::ModelTensors& tensors) {
  test::Runner<Config, T> wanted, found;
  load_target(tensors, wanted.parameters);
  wanted.freeze();
  const auto numbers = runs(wanted);
  for (const KeepWeights keep : {KeepWeights::native, KeepWeights::full}) {
    for (const int threads : {1, 3}) {
      found.frozen.emplace(load_frozen_target<Config, T>(Cpu{threads}, tensors, io::named({}), keep));
      CHECK(runs(found) == numbers);
      if (keep == KeepWeights::native) {
        CHECK(found.frozen->bytes().all == wanted.frozen->bytes().all);
        CHECK(found.frozen->bytes().experts == wanted.frozen->bytes().experts);
      } else {
        CHECK(found.frozen->bytes().all >= wanted.frozen->bytes().all);
        CHECK(found.frozen->bytes().all >
              sizeof(accumulate_t<T>) * static_cast<std::size_t>(K3Target<Config>::active_parameters()));
      }
    }
  }
}

template <class Config>
void check_formats() {
  const Files<Config, float> full;
  check_same<Config, float>(full.open());
  check_same<Config, bfloat16>(full.open());
  const Files<Config, bfloat16> half;
  check_same<Config, float>(half.open());
  check_same<Config, bfloat16>(half.open());
}

template <class Config>
void check_mxfp4() {
  for (const bool all : {true, false}) {
    Files<Config, bfloat16> files;
    files.pack_experts(all, 118, 128);
    check_same<Config, float>(files.open());
    check_same<Config, bfloat16>(files.open());
    check_same<Config, double>(files.open());
  }
}

}  // namespace

TEST_CASE("layers of every kind have the same bits straight from a checkpoint") {
  check_formats<OneLayer<false, false>>();
  check_formats<OneLayer<false, true>>();
  check_formats<OneLayer<true, false>>();
  check_formats<OneLayer<true, true>>();
  check_formats<OtherForm<OneLayer<false, true>>>();
  check_formats<OtherForm<OneLayer<true, false>>>();
}

TEST_CASE("MXFP4 experts have the same bits, by their own bits") {
  check_mxfp4<OneLayer<false, true>>();
  check_mxfp4<OneLayer<true, true>>();
}

TEST_CASE("numbers of MXFP4 that are stored as bfloat16 are kept as narrow as by way of parameters") {
  using Config = OneLayer<true, true>;
  for (const bool but_one : {false, true}) {
    Files<Config, bfloat16> files;
    for (const io::TensorSource& s : files.sources) {
      if (s.dtype != DType::BF16 || s.shape.size() != 2) continue;
      auto* x = static_cast<bfloat16*>(const_cast<void*>(s.data));
      const index_t count = s.shape[0] * s.shape[1];
      for (index_t i = 0; i < count; ++i) x[i] = bfloat16(mxfp4_value(static_cast<unsigned>(i * 7 % 16)));
      if (but_one) x[count - 1] = bfloat16(1.25F);  // of each tensor the last
    }
    check_same<Config, float>(files.open());
    check_same<Config, bfloat16>(files.open());
  }
}

TEST_CASE("MXFP4 scales next to where float ends") {
  using Config = OneLayer<false, true>;
  for (const index_t least : {0, 1, 248, 252, 253}) {
    CAPTURE(least);
    Files<Config, float> files;
    files.pack_experts(true, least, least + 3);
    const auto tensors = files.open();
    test::Runner<Config, float> wanted, found;
    load_target(tensors, wanted.parameters);
    wanted.freeze();
    found.frozen.emplace(load_frozen_target<Config, float>(Cpu{1}, tensors));
    const auto a = runs(wanted), b = runs(found);
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(test::same_bits(a[i].logits, b[i].logits));
  }
}

TEST_CASE("the miniature has the same bits straight from its folder") {
  const auto check = []<class T>(T) {
    auto loaded = load_frozen_target<configs::KimiK3Tiny, T>(Cpu{2}, test::tiny_folder);
    CHECK(loaded.notes.empty());
    test::Runner<configs::KimiK3Tiny, T> found;
    found.frozen.emplace(std::move(loaded.target));
    CHECK(runs(found) == runs(test::tiny<T>()));
    CHECK(found.frozen->bytes().all == test::tiny<T>().frozen->bytes().all);
    CHECK(found.frozen->bytes().embedding ==
          sizeof(T) * configs::KimiK3Tiny::vocab_size * configs::KimiK3Tiny::hidden_size);
  };
  check(float{}), check(bfloat16{});
}

TEST_CASE("a target straight from a checkpoint on another device") {
  using Config = OneLayer<true, true>;
  Files<Config, float> files;
  files.pack_experts(true, 118, 128);
  test::Runner<Config, float> wanted;
  load_target(files.open(), wanted.parameters);
  wanted.freeze();
  TargetState<Config, float> near({1, 4});
  const std::vector<index_t> ids{1, 2, 3};
  const auto run = wanted(near, ids);
  index_t calls = 0;
  const Far device{&calls};
  const auto target = load_frozen_target<Config, float>(device, files.open());
  CHECK(target.bytes().all > sizeof(float) * static_cast<std::size_t>(K3Target<Config>::active_parameters()));
  typename FrozenTarget<Config, float, Far>::State state({1, 4}, device);
  arena_t<Far> arena(device, FrozenTarget<Config, float>::scratch_bytes(1, 3));
  FarBuffer<float> last(device, 3 * Config::hidden_size);
  target.forward(device, state, Matrix<const index_t>(ids.data(), 1, 3),
                 {Matrix<Placed<float, Far>>(last.data(), 3, Config::hidden_size)}, arena);
  CHECK(std::memcmp(bare(last.data()), run.last.data(), sizeof(float) * run.last.size()) == 0);
}

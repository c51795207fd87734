// A target stored in bfloat16: near its float self, the same bits in any chunks, and what a checkpoint keeps in F32
// kept so, the corrections that choose experts above all.
#include "k3_tiny.hpp"

#include <array>
#include <cstring>
#include <map>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using Config = configs::KimiK3Tiny;

namespace {

/// k3-tiny whose choices of experts can be watched.
struct Watched : configs::KimiK3Tiny {};

/// Per layer, by where its corrections stand: what another storage has made of them, if it is to be watched. And how
/// often a first choice would be another with those, or with corrections rounded to bfloat16.
struct Watch {
  std::map<const float*, const float*> stored;
  index_t choices = 0, changed = 0, changed_by_rounding = 0;

  template <class Correction>
  static index_t first(const float* scores, Correction&& correction) {
    std::array<float, Watched::num_experts> sums;
    for (std::size_t e = 0; e < sums.size(); ++e) sums[e] = scores[e] + correction(e);
    return std::max_element(sums.begin(), sums.end()) - sums.begin();
  }
  void operator()(const float* scores, const float* corrections) {
    const auto found = stored.find(corrections);
    if (found == stored.end()) return;
    const float* other = found->second;
    const index_t best = first(scores, [&](std::size_t e) { return corrections[e]; });
    ++choices;
    if (best != first(scores, [&](std::size_t e) { return other[e]; })) ++changed;
    const auto rounded = [&](std::size_t e) { return static_cast<float>(bfloat16(corrections[e])); };
    if (best != first(scores, rounded)) ++changed_by_rounding;
  }
};
Watch watch;

}  // namespace

template <>
void k3spec::route_row<Watched, float>(const float* scores, const float* correction, index_t* ids, float* weights) {
  watch(scores, correction);
  route_row<configs::KimiK3Tiny, float>(scores, correction, ids, weights);
}

namespace {

/// Calls f(corrections of a layer) for every layer that has some, in order.
template <class Model, class W, class F>
void for_corrections(W& weights, F&& f) {
  for (index_t i = 0; i < Model::layers; ++i) {
    Model::with_layer(weights, i, [&](auto kind, auto& layer) {
      if constexpr (Model::template Layer<kind>::is_moe) f(layer.mlp.e_score_correction_bias);
    });
  }
}

/// k3-tiny with every correction raised by 7.
template <class C, class T>
void load_raised(Parameters<K3Target<C>, T>& parameters) {
  load_target<C>(test::tiny_folder, parameters);
  auto w = parameters.mutable_weights();
  for_corrections<K3Target<C>>(w, [](auto& corrections) {
    for (index_t e = 0; e < corrections.extent(0); ++e) {
      auto& x = corrections(e);
      x = static_cast<std::remove_reference_t<decltype(x)>>(static_cast<float>(x) + 7);
    }
  });
}

/// Two experts of width 1 in a latent space of 1; the first gives 0, the second not.
struct TwoExperts : configs::KimiK3Tiny {
  static constexpr index_t hidden_size = 2, routed_expert_hidden_size = 1, moe_intermediate_size = 1;
  static constexpr index_t num_experts = 2, num_experts_per_token = 1, num_shared_experts = 0;
  static constexpr bool latent_moe_use_norm = false;
};
/// A layer on its own, all of it frozen as a target's is.
template <class Layer>
struct Alone {
  template <class T>
  using Weights = typename Layer::template Weights<T>;
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Layer::visit(w, at, [&](const Path& path, auto& view, Init init) { v(path, view, Frozen{init}); });
  }
};

/// y[0] for x = (1, 1), a router [2, 2] and corrections.
template <class T>
double chosen_output(const std::array<float, 4>& router, std::array<float, 2> corrections) {
  using Moe = LatentMoe<TwoExperts>;
  Parameters<Alone<Moe>, T> parameters;
  auto w = parameters.mutable_weights();
  const auto number = [](float x) { return static_cast<T>(x); };
  for (std::size_t i = 0; i < 4; ++i) w.gate.weight.data()[i] = number(router[i]);
  for (index_t e = 0; e < 2; ++e) {
    auto& x = w.e_score_correction_bias(e);
    x = static_cast<std::remove_reference_t<decltype(x)>>(corrections[static_cast<std::size_t>(e)]);
  }
  w.routed_expert_down_proj.weight(0, 0) = w.routed_expert_up_proj.weight(0, 0) = number(1);
  auto& second = w.experts_[1];
  second.w1.weight(0, 0) = second.w2.weight(0, 0) = second.w3.weight(0, 0) = number(1);
  const typename Moe::template Prepacked<T> frozen(Cpu{}, parameters.weights());
  Buffer<std::byte> memory(static_cast<index_t>(Moe::scratch_bytes<T>(1)));
  ArenaSlice arena(memory.data(), static_cast<std::size_t>(memory.size()));
  std::array<T, 2> x{number(1), number(1)}, y{};
  Moe::forward<T>(Cpu{1}, frozen, Matrix<T>(x.data(), 1, 2), Matrix<T>(y.data(), 1, 2), Into::overwrite, arena);
  return static_cast<double>(y[0]);
}

/// k3-tiny in float, every weight rounded as the bfloat16 one's.
test::Runner<Watched, float>& rounded() {
  static auto* const runner = [] {
    auto* r = new test::Runner<Watched, float>;
    auto from = test::tiny<bfloat16>().parameters.mutable_weights();
    auto to = r->parameters.mutable_weights();
    const auto source = io::slots<K3Target<Config>>(from), target = io::slots<K3Target<Watched>>(to);
    for (std::size_t i = 0; i < source.size(); ++i) {
      const std::size_t bytes = *io::byte_count(source[i].dtype, source[i].shape);
      io::convert(source[i].dtype, {static_cast<const std::byte*>(source[i].data), bytes}, DType::F32, target[i].data);
    }
    r->freeze();
    return r;
  }();
  return *runner;
}

template <class C, class T>
test::Run<T> run(const test::Runner<C, T>& runner, const std::vector<index_t>& ids, index_t sequences) {
  TargetState<C, T> state({sequences, static_cast<index_t>(ids.size()) / sequences});
  return runner(state, ids);
}

}  // namespace

TEST_CASE("in bfloat16 the target stays near its float self") {
  auto ids = test::tiny_reference().values<index_t>("input.prompts");
  ids.resize(8 * 64);
  const auto exact = run(rounded(), ids, 8);
  const auto stored = run(test::tiny<bfloat16>(), ids, 8);
  double squares = 0, difference = 0;
  for (std::size_t i = 0; i < exact.last.size(); ++i) {
    const double x = exact.last[i], d = static_cast<double>(static_cast<float>(stored.last[i])) - x;
    squares += x * x, difference += d * d;
  }
  const double error = std::sqrt(difference / squares);
  index_t agree = 0;
  std::vector<float> logits(stored.logits.begin(), stored.logits.end());
  const auto a = test::greedy_next(logits), b = test::greedy_next(exact.logits);
  for (std::size_t i = 0; i < a.size(); ++i) agree += a[i] == b[i] ? 1 : 0;
  MESSAGE("relative error of the last state ", error, ", the same first choice in ", agree, " of ", a.size());
  // Each of 16 sums is rounded to 2^-9 and reads rounded inputs: 2^-9 · sqrt(16 · a few) is 0.02.
  CHECK(error < 0.04);
  CHECK(error > 0);
  CHECK(agree >= 480);
}

TEST_CASE("bfloat16: chunks and rollback change no bit") {
  const auto& tiny = test::tiny<bfloat16>();
  std::vector<index_t> ids;
  for (index_t i = 0; i < 90; ++i) ids.push_back(32 + (i * i) % 90);
  TargetState<Config, bfloat16> whole({1, 90}), cut({1, 90});
  const auto part = [&](index_t begin, index_t end) { return tiny.slice(ids, 1, begin, end); };
  tiny(whole, part(0, 80));
  tiny(cut, part(0, 70));
  tiny(cut, part(70, 85));
  cut.accept(0, 10);
  CHECK(tiny(cut, part(80, 90)) == tiny(whole, part(80, 90)));
}

TEST_CASE("what k3-tiny's checkpoint keeps in F32 is kept so, to the bit, and nothing else is") {
  auto w = test::tiny<bfloat16>().parameters.mutable_weights();
  const auto checkpoint = io::ModelTensors::open(test::tiny_folder, "language_model.");
  index_t kept = 0;
  for (const io::TensorSlot& slot : io::slots<K3Target<Config>>(w)) {
    if (!checkpoint.contains(slot.name)) continue;  // MXFP4
    CAPTURE(slot.name);
    CHECK(slot.dtype == checkpoint.dtype(slot.name));
    if (slot.dtype != DType::F32) continue;
    // Of an A_log longer than the heads the first entries count.
    const std::size_t bytes = *io::byte_count(slot.dtype, slot.shape);
    CHECK(std::memcmp(slot.data, checkpoint.read_bytes(slot.name).data(), bytes) == 0);
    ++kept;
  }
  CHECK(kept == 6 * 6 + 7);  // A_log, dt_bias, three convolutions and a norm of KDA layers; corrections of MoE layers
}

TEST_CASE_TEMPLATE("a router in any storage: corrections of 7.000 and 7.010, scores that bfloat16 has as one", T, float,
                   double, bfloat16) {
  constexpr std::array<float, 4> same{};
  CHECK(chosen_output<T>(same, {7.000F, 7.010F}) != 0);
  CHECK(chosen_output<T>(same, {7.010F, 7.000F}) == 0);
  CHECK(chosen_output<T>(same, {7, 7}) == 0);
  // Sums of 2^-1 and of that + 2^-10: both weights are bfloat16's, the sum is not.
  CHECK(chosen_output<T>({0.5F, 0, 0.5F, 0x1p-10F}, {0, 0}) != 0);
  CHECK(chosen_output<T>({0.5F, 0x1p-10F, 0.5F, 0}, {0, 0}) == 0);
}

TEST_CASE("corrections near 7: their storage changes no first choice over 4096 held-out tokens") {
  const auto exact = std::make_unique<test::Runner<Watched, float>>();
  const auto stored = std::make_unique<Parameters<K3Target<Config>, bfloat16>>();
  load_raised<Watched>(exact->parameters);
  load_raised<Config>(*stored);
  std::vector<std::vector<float>> others;
  const auto theirs = stored->weights();
  for_corrections<K3Target<Config>>(theirs, [&](const auto& corrections) {
    others.emplace_back(corrections.data(), corrections.data() + corrections.size());
  });
  std::size_t layer = 0;
  watch = {};
  const auto ours = exact->parameters.weights();
  for_corrections<K3Target<Watched>>(
      ours, [&](const auto& corrections) { watch.stored[corrections.data()] = others[layer++].data(); });
  exact->freeze();

  constexpr index_t rows = 16, length = 256;
  const std::string text = test::contents(test::tiny_folder + "/heldout.txt");
  std::vector<index_t> ids;
  for (index_t i = 0; i < rows * length; ++i)
    ids.push_back(static_cast<unsigned char>(text[static_cast<std::size_t>(i)]));
  TargetState<Watched, float> state({rows, length});
  (*exact)(state, ids);
  MESSAGE(watch.choices, " choices; rounding the corrections to bfloat16 would change ", watch.changed_by_rounding);
  CHECK(watch.choices == 7 * rows * length);
  CHECK(watch.changed == 0);
  CHECK(watch.changed_by_rounding > 0);
}

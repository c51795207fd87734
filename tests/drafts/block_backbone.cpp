// The backbone of the block drafts as a whole: what may change a block's output and what must not, that packing changes
// nothing, its gradients, its sizes, and the parts that a session runs one after the other.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include <tests/support/case_configs.hpp>
#include <tests/support/same_bits.hpp>
#include <tests/support/small_blocks.hpp>
#include <k3spec/drafts/dflash_draft.hpp>
#include <k3spec/drafts/dspark_draft.hpp>
#include <k3spec/layers/prepacked.hpp>

using namespace k3spec;
using test::same_bits;

namespace {

std::size_t at(index_t i) { return static_cast<std::size_t>(i); }

using Small = test::SmallBlocks;
struct OneLayerPlain : Small {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
  static constexpr bool mla_use_output_gate = false;
  static constexpr index_t num_draft_layers = 1, block_size = 2;
};
struct SmallDSpark : test::NoSpecialTokens<configs::KimiK3DSpark> {
  static constexpr index_t vocab_size = 23, hidden_size = 9, target_hidden_size = 9, markov_rank = 4;
  static constexpr std::optional<index_t> mask_token_id = 22;
};

struct Trained : SmallDSpark {
  static constexpr bool train_embeddings = true;
};

struct Blocks {
  index_t context;
  std::vector<index_t> anchors, documents = {};
  std::vector<std::uint8_t> keep = {};
  std::optional<index_t> window = {};
  bool causal = false;

  BlockVisibility visible() const {
    return {anchors.data(), keep.empty() ? nullptr : keep.data(), documents.empty() ? nullptr : documents.data(),
            window, causal};
  }
};

/// A backbone with its operands and results, one sequence.
template <class Config, class T>
struct Run {
  using Backbone = BlockBackbone<Config>;
  using S = accumulate_t<T>;
  static constexpr index_t hidden = Backbone::hidden, width = Backbone::target_width;

  Blocks blocks;
  BlockSpan span;
  int threads = 1;
  Parameters<Backbone, T> parameters;
  Gradients<Backbone, T> gradients;
  std::vector<T> target, noise, out;
  std::vector<S> d_out, d_noise, d_target;

  explicit Run(const Blocks& b)
      : blocks(b), span{1, b.context, static_cast<index_t>(b.anchors.size()), Config::block_size} {
    parameters.initialize(3, 0.4);
    target = random<T>(b.context * width, 4), noise = random<T>(span.noise_rows() * hidden, 5);
    d_out = random<S>(span.noise_rows() * hidden, 6);
    d_noise.assign(noise.size(), NAN), d_target.assign(target.size(), NAN);
  }

  template <class U>
  static std::vector<U> random(index_t count, std::uint64_t stream) {
    const Philox draws(11, stream);
    std::vector<U> x;
    for (index_t i = 0; i < count; ++i) x.push_back(U(static_cast<S>(draws.normal(static_cast<std::uint64_t>(i)))));
    return x;
  }

  Rows<const T, width> target_rows() const { return {target.data(), Extents<dyn, width>(blocks.context)}; }
  Rows<const T, hidden> noise_rows() const { return {noise.data(), Extents<dyn, hidden>(span.noise_rows())}; }

  /// Memory that is too small throws, and all of it begins as NaN.
  typename Backbone::template Activations<T> allocate(Arena& memory) const {
    const auto plan = [&](auto& a) {
      return Backbone::template Activations<T>::allocate(a, span.context_rows(), span.noise_rows());
    };
    memory = Arena(plan_bytes(plan));
    memory.poison();
    return plan(memory);
  }
  void take_out(const Rows<T, hidden>& from) { out.assign(from.data(), from.data() + from.size()); }

  void forward() {
    Arena memory;
    const auto acts = allocate(memory);
    Backbone::template forward<T>(
        Cpu{threads}, parameters.weights(),
        typename Backbone::template Inputs<T, BlockVisibility>{target_rows(), noise_rows(), span, blocks.visible()},
        acts);
    take_out(acts.out);
  }
  using InputGradients = typename Backbone::template InputGradients<S>;
  static constexpr InputGradients no_gradients{};
  InputGradients input_gradients() {
    return {Matrix<S>(d_noise.data(), span.noise_rows(), hidden), Matrix<S>(d_target.data(), blocks.context, width)};
  }
  void run(bool inputs = true) {
    Arena memory;
    const auto acts = allocate(memory);
    Backbone::template forward<T>(
        Cpu{threads}, parameters.weights(),
        typename Backbone::template Inputs<T, BlockVisibility>{target_rows(), noise_rows(), span, blocks.visible()},
        acts);
    take_out(acts.out);
    Arena scratch(Backbone::template scratch_bytes<T>(span.context_rows(), span.noise_rows()));
    scratch.poison();
    gradients.zero();
    Backbone::template backward<T>(
        Workspace(Cpu{threads}, scratch), parameters.weights(), gradients.weights(),
        typename Backbone::template Inputs<T, BlockVisibility>{target_rows(), noise_rows(), span, blocks.visible()},
        acts, Rows<const S, hidden>(d_out.data(), span.noise_rows()), inputs ? input_gradients() : no_gradients);
    CHECK(scratch.used() == 0);
    CHECK(scratch.peak() == scratch.capacity());
  }

  /// ⟨out, d_out⟩
  double product() {
    forward();
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += static_cast<double>(out[i]) * static_cast<double>(d_out[i]);
    return sum;
  }

  std::vector<T> block(index_t b) const {
    const auto n = Config::block_size * hidden;
    return {out.begin() + b * n, out.begin() + (b + 1) * n};
  }
  std::vector<S> all_gradients() {
    const auto flat = gradients.flat();
    return {flat.data(), flat.data() + flat.size()};
  }
};

std::vector<Blocks> variants() {
  return {{70, {0, 1, 64, 65, 70}},
          {70, {66, 3, 40, 3, 9}},
          {30, {2, 9, 20, 29}, {}, {}, 6, true},
          {30, {2, 9, 0, 20}, {}, {1, 1, 0, 1}},
          {20, {3, 7, 8, 12, 19}, {0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 18, 18}, {}, 3}};
}

/// Sums of a few hundred terms: 2⁻⁵³ times that, and what two layers make of it, stay below this.
void near(const std::vector<double>& found, const std::vector<double>& wanted) {
  REQUIRE(found.size() == wanted.size());
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    error = std::isfinite(found[i]) ? std::max(error, std::abs(found[i] - wanted[i])) : INFINITY;
  }
  CHECK(error <= 1e-12 * largest);
}

// One layer of K3: MLA with q_lora and gate, MLP, two norms.
constexpr index_t k3_attention =
    7168 * 1536 + 1536 + 1536 * 96 * 192 + 7168 * 576 + 512 + 512 * 96 * 256 + 2 * 7168 * 96 * 128;
constexpr index_t k3_layer = k3_attention + 3 * index_t{7168} * 33792 + 2 * 7168;
constexpr index_t k3_ends = 7168 * 3 * 7168 + 2 * 7168;  // fc, hidden_norm, norm
static_assert(parameter_count<DFlashDraft<configs::KimiK3DFlash>> == 2 * k3_layer + k3_ends);
static_assert(trainable_count<DFlashDraft<configs::KimiK3DFlash>> == 2 * k3_layer + k3_ends);
constexpr index_t k3_heads = 2 * 163840 * index_t{256} + 7168 + 256 + 1;
static_assert(trainable_count<DSparkDraft<configs::KimiK3DSpark>> == 3 * k3_layer + k3_ends + k3_heads);
static_assert(parameter_count<DSparkDraft<configs::KimiK3DSpark>> ==
              3 * k3_layer + k3_ends + k3_heads + 2 * 163840 * index_t{7168});

}  // namespace

TEST_CASE_TEMPLATE("context at or after the anchor and other blocks' noise change no bit of a block", T, double, float,
                   bfloat16) {
  for (const Blocks& blocks : variants()) {
    CAPTURE(blocks.context);
    Run<Small, T> run(blocks);
    run.forward();
    for (index_t b = 0; b < run.span.blocks; ++b) {
      Run<Small, T> changed(blocks);
      const auto other = Run<Small, T>::template random<T>(1000, 77);
      const index_t n = Small::block_size * Small::hidden_size;
      for (index_t i = blocks.anchors[at(b)] * changed.width; i < blocks.context * changed.width; ++i)
        changed.target[at(i)] = other[at(i % 1000)];
      for (index_t i = 0; i < run.span.blocks * n; ++i) {
        if (i / n != b) changed.noise[at(i)] = other[at(i % 999)];
      }
      changed.forward();
      CHECK(same_bits(changed.block(b), run.block(b)));
      // And what it does see, does.
      changed.noise[at(b * n)] = T(static_cast<accumulate_t<T>>(changed.noise[at(b * n)]) + 1);
      changed.forward();
      CHECK(!same_bits(changed.block(b), run.block(b)));
      if (blocks.anchors[at(b)] == 0 ||
          (!blocks.documents.empty() && blocks.documents[at(blocks.anchors[at(b)])] == blocks.anchors[at(b)])) {
        continue;
      }
      changed = Run<Small, T>(blocks);
      T& last = changed.target[at((blocks.anchors[at(b)] - 1) * changed.width)];
      last = T(static_cast<accumulate_t<T>>(last) + 8);
      changed.forward();
      CHECK(!same_bits(changed.block(b), run.block(b)));
    }
  }
}

TEST_CASE("documents of 8 and 10 packed are the two apart: outputs, gradients of inputs and parameters") {
  const Blocks apart[] = {{8, {0, 3, 7}}, {10, {1, 9, 4}}};
  Blocks together{18, {0, 3, 7, 9, 17, 12}};
  for (index_t p = 0; p < 18; ++p) together.documents.push_back(p < 8 ? 0 : 8);
  Run<Small, double> packed(together);
  packed.run();
  std::vector<double> out, d_noise, d_target, d_w(packed.all_gradients().size());
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (const Blocks& blocks : apart) {
    Run<Small, double> one(blocks);
    const auto take = [](auto& to, const auto& from, std::size_t begin) {
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(begin), to.size(), to.begin());
    };
    take(one.target, packed.target, d_target.size());
    take(one.d_out, packed.d_out, out.size()), take(one.noise, packed.noise, out.size());
    one.run();
    append(out, one.out), append(d_noise, one.d_noise), append(d_target, one.d_target);
    const auto gradients = one.all_gradients();
    for (std::size_t i = 0; i < d_w.size(); ++i) d_w[i] += gradients[i];
  }
  near(packed.out, out), near(packed.d_noise, d_noise), near(packed.d_target, d_target);
  near(packed.all_gradients(), d_w);
}

TEST_CASE_TEMPLATE("gradients are what finite differences say", Config, Small, OneLayerPlain) {
  for (const Blocks& blocks : variants()) {
    CAPTURE(blocks.context);
    Run<Config, double> run(blocks);
    run.run();
    // Of a step h along a random direction the central difference is off by h² times a third derivative.
    constexpr double h = 1e-5;
    const auto check = [&](double* values, const double* gradient, index_t count) {
      const auto direction = Run<Config, double>::template random<double>(count, 99);
      const std::vector<double> before(values, values + count);
      double wanted = 0, size = 0;
      const auto step = [&](double by) {
        for (index_t i = 0; i < count; ++i) values[i] = before[at(i)] + by * direction[at(i)];
        return run.product();
      };
      const double found = (step(h) - step(-h)) / (2 * h);
      std::copy(before.begin(), before.end(), values);
      for (index_t i = 0; i < count; ++i) {
        wanted += gradient[i] * direction[at(i)];
        size += gradient[i] * gradient[i];
      }
      CHECK(std::abs(found - wanted) <= 1e-6 * (std::sqrt(size) + std::abs(wanted)) + 1e-9);
      CHECK(size > 0);
    };
    auto w = run.parameters.mutable_weights();
    auto d_w = run.gradients.weights();
    std::vector<std::pair<double*, index_t>> tensors;
    BlockBackbone<Config>::visit(
        w, Path{}, [&](const Path&, auto& view, auto) { tensors.emplace_back(view.data(), view.size()); });
    std::size_t next = 0;
    BlockBackbone<Config>::visit(d_w, Path{}, [&](const Path& path, auto& view, auto) {
      CAPTURE(path.str());
      check(tensors[next].first, view.data(), tensors[next].second);
      ++next;
    });
    check(run.noise.data(), run.d_noise.data(), static_cast<index_t>(run.noise.size()));
    check(run.target.data(), run.d_target.data(), static_cast<index_t>(run.target.size()));
  }
}

TEST_CASE_TEMPLATE("neither threads nor unwanted input gradients change a bit", T, double, float, bfloat16) {
  for (const Blocks& blocks : variants()) {
    Run<Small, T> one(blocks), three(blocks), without(blocks);
    three.threads = 3;
    one.run(), three.run(), without.run(false);
    CHECK(same_bits(one.out, three.out));
    CHECK(same_bits(one.d_target, three.d_target));
    CHECK(same_bits(one.d_noise, three.d_noise));
    CHECK(same_bits(one.all_gradients(), three.all_gradients()));
    CHECK(same_bits(one.all_gradients(), without.all_gradients()));
  }
}

TEST_CASE_TEMPLATE("context that comes in parts, and weights made ready for few rows, give the same bits", T, double,
                   float, bfloat16) {
  using Backbone = BlockBackbone<Small>;
  const Blocks blocks{70, {66, 70}};
  Run<Small, T> whole(blocks), parts(blocks);
  whole.forward();
  Arena memory;
  const auto acts = parts.allocate(memory);
  const auto w = prepack_weights<Backbone, T>(parts.parameters.weights());
  for (index_t first = 0; first < 70;) {
    const index_t n = first == 0 ? 33 : (first == 33 ? 1 : 36);
    const auto context = acts.context.rows(first, n);
    Backbone::template project_context<T>(Cpu{}, w, parts.target_rows().rows(first, n), acts.fc.rows(first, n),
                                          context);
    for (std::size_t i = 0; i < acts.layers.size(); ++i) {
      const auto& all = acts.context_keys[i];
      const typename Backbone::Layer::template Keys<T> keys{all.kv_a.rows(first, n), all.kv_latent.rows(first, n),
                                                            all.kv.rows(first, n)};
      Backbone::Attention::template project_keys<T>(Cpu{}, w.layers[i].self_attn, context, keys);
    }
    first += n;
  }
  Backbone::template forward_noise<T>(Cpu{}, w, parts.noise_rows(), acts, [&](index_t i, const auto& saved) {
    Backbone::Layer::template attend<T>(Cpu{}, w.layers[at(i)], parts.span,
                                        Backbone::Layer::template attention_keys<T>(acts.context_keys[at(i)]),
                                        blocks.visible(), saved);
  });
  parts.take_out(acts.out);
  CHECK(same_bits(whole.out, parts.out));
}

TEST_CASE("no context and no blocks are sizes like others") {
  Run<Small, double> no_context(Blocks{0, {0, 0}}), no_blocks(Blocks{5, {}});
  no_context.run();
  for (const double x : no_context.out) CHECK(std::isfinite(x));
  for (const double x : no_context.d_noise) CHECK(std::isfinite(x));
  no_blocks.run();
  for (const double x : no_blocks.d_target) CHECK(x == 0);
}

TEST_CASE("DSpark trains its embedding and head only when asked") {
  static_assert(parameter_count<DSparkDraft<Trained>> == parameter_count<DSparkDraft<SmallDSpark>>);
  static_assert(trainable_count<DSparkDraft<Trained>> == trainable_count<DSparkDraft<SmallDSpark>> + 2 * 23 * 9);
  std::vector<std::string> names;
  typename DSparkDraft<SmallDSpark>::template Weights<float> w{};
  DSparkDraft<SmallDSpark>::visit(w, Path{}, [&](const Path& path, auto&, auto) { names.push_back(path.str()); });
  CHECK(names.front() == "embed_tokens.weight");
  CHECK(names[1] == "lm_head.weight");
  CHECK(names[2] == "fc.weight");
  CHECK(names.back() == "confidence_head.proj.bias");
}

#pragma once
/// \file
/// Paths of attention: EAGLE-3's over the steps of test-time training, block drafts', Kimi delta attention's recurrence
/// and the absorbed attention of decoding.
/// defines: bench::attention_paths

#include <memory>
#include <string>
#include <vector>

#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/ops/block_attention.hpp>
#include <k3spec/ops/kda.hpp>
#include <k3spec/ops/latent_attention.hpp>
#include <k3spec/ops/ttt_attention.hpp>

#include "case.hpp"
#include "operands.hpp"

namespace k3spec::bench {

/// Four heads of K3's.
using FourHeads = AttentionHeads<4, configs::KimiK3::qk_nope_head_dim, configs::KimiK3::qk_rope_head_dim,
                                 configs::KimiK3::v_head_dim>;

inline Case attention_path(const std::string& name, double flops, double bytes, std::function<void(const Cpu&)> call) {
  return {"Attention", name, flops, bytes, Moves::copies, Home::memory, std::move(call)};
}

/// Queries, keys and values of all heads, results, and the gradients of each.
template <class Heads>
struct AttentionOperands {
  index_t queries, keys;
  Floats q, kv, k_rope, o, d_o, d_q, d_kv, d_k_rope;
  Buffer<LogSumExp<float>> lse;
  Arena scratch;
  static constexpr index_t qk_width = Heads::count * Heads::qk, kv_width = Heads::count * Heads::kv,
                           o_width = Heads::count * Heads::v;

  AttentionOperands(index_t n, index_t m, std::size_t scratch_bytes)
      : queries(n),
        keys(m),
        q(random_floats(n * qk_width)),
        kv(random_floats(m * kv_width)),
        k_rope(random_floats(m * Heads::rope)),
        o(n * o_width),
        d_o(random_floats(n * o_width)),
        d_q(n * qk_width),
        d_kv(m * kv_width),
        d_k_rope(m * Heads::rope),
        lse(n * Heads::count),
        scratch(scratch_bytes) {}

  AttentionKeys<const float> keys_of(index_t first, index_t n) {
    return {matrix<const float>(kv, n, kv_width, first * kv_width),
            matrix<const float>(k_rope, n, Heads::rope, first * Heads::rope)};
  }
  AttentionKeys<float> d_keys_of(index_t first, index_t n) {
    return {matrix<float>(d_kv, n, kv_width, first * kv_width),
            matrix<float>(d_k_rope, n, Heads::rope, first * Heads::rope)};
  }
  AttentionResult<float> result() {
    return {matrix<float>(o, queries, o_width), Matrix<LogSumExp<float>>(lse.data(), queries, Heads::count)};
  }
  double forward_bytes() const {
    return 4 * static_cast<double>(q.size() + kv.size() + k_rope.size() + o.size() + 2 * lse.size());
  }
  /// Gradients are as large as what they are of; o and lse are read.
  double backward_bytes() const {
    return 4 * static_cast<double>(2 * (q.size() + kv.size() + k_rope.size() + o.size() + lse.size()));
  }
  /// Scores and weighted values; behind them scores again, the weights' gradients, and those of queries, keys, values.
  static double forward_flops(double pairs) { return pairs * Heads::count * 2 * (Heads::qk + Heads::v); }
  static double backward_flops(double pairs) { return pairs * Heads::count * 2 * (3 * Heads::qk + 2 * Heads::v); }
};

inline void add_ttt(std::vector<Case>& paths) {
  using O = AttentionOperands<FourHeads>;
  constexpr index_t n = 2048;
  const auto x = held<O>(n, n, ttt_attention_scratch<FourHeads, float>(n, 1));
  const auto problem = [=] {
    AttentionSteps<const float> steps;
    steps.add(x->keys_of(0, n));
    return TttProblem<FourHeads, float, CausalVisibility>{AttentionSpan{1, n, n},
                                                          matrix<const float>(x->q, n, O::qk_width),
                                                          steps,
                                                          {},
                                                          SqrtScale::of<float>(FourHeads::qk)};
  };
  constexpr double pairs = static_cast<double>(n) * (n + 1) / 2;
  paths.push_back(attention_path("EAGLE-3's, 4 heads, 1 x 2048", O::forward_flops(pairs), x->forward_bytes(),
                                 [=](const Cpu& cpu) { ttt_attention_forward(cpu, problem(), x->result()); }));
  paths.push_back(attention_path(
      "EAGLE-3's gradients, 4 heads, 1 x 2048", O::backward_flops(pairs), x->backward_bytes(), [=](const Cpu& cpu) {
        TttGradients<float> d{matrix<float>(x->d_q, n, O::qk_width), {}};
        d.d_steps.add(x->d_keys_of(0, n));
        ttt_attention_backward(cpu, problem(), x->result(), matrix<const float>(x->d_o, n, O::o_width), d, x->scratch);
      }));
}

/// 128 blocks of 8 over 2048 tokens, opened evenly.
inline void add_blocks(std::vector<Case>& paths) {
  using O = AttentionOperands<FourHeads>;
  constexpr BlockSpan span{1, 2048, 128, 8};
  constexpr index_t c = span.context_rows(), n = span.noise_rows();
  const auto anchors = held<Buffer<index_t>>(span.blocks);
  double pairs = 0;
  for (index_t b = 0; b < span.blocks; ++b) {
    (*anchors)[b] = (2 * b + 1) * span.context / (2 * span.blocks);
    pairs += static_cast<double>(((*anchors)[b] + span.block_size) * span.block_size);
  }
  const auto x = held<O>(n, c + n, block_attention_scratch<FourHeads, float>(c, n));
  const auto problem = [=] {
    BlockVisibility visible;
    visible.anchors = anchors->data();
    return BlockProblem<FourHeads, float, BlockVisibility>{
        span,    matrix<const float>(x->q, n, O::qk_width), x->keys_of(0, c), x->keys_of(c, n),
        visible, SqrtScale::of<float>(FourHeads::qk)};
  };
  paths.push_back(attention_path("blocks', 4 heads, 128 x 8 over 2048", O::forward_flops(pairs), x->forward_bytes(),
                                 [=](const Cpu& cpu) { block_attention_forward(cpu, problem(), x->result()); }));
  paths.push_back(attention_path(
      "blocks' gradients, 4 heads, 128 x 8 over 2048", O::backward_flops(pairs), x->backward_bytes(),
      [=](const Cpu& cpu) {
        const BlockGradients<float> d{matrix<float>(x->d_q, n, O::qk_width), x->d_keys_of(0, c), x->d_keys_of(c, n)};
        block_attention_backward(cpu, problem(), x->result(), matrix<const float>(x->d_o, n, O::o_width), d,
                                 x->scratch);
      }));
}

/// K3's heads of 128, and a sequence that they remember.
struct DeltaAttention {
  static constexpr index_t dim = configs::KimiK3::kda_head_dim, heads = configs::KimiK3::kda_num_heads;
  static constexpr index_t width = heads * dim, most = 64;
  Floats q = random_floats(most * width, {0, 0.1}), k = q_like(), v = random_floats(most * width),
         o = Floats(most * width);
  Floats decay = random_floats(most * width, {0.9, 0.1}), beta = random_floats(most * heads, {0.5, 0.1});
  Floats state = Floats(heads * KdaLayout<float, dim>::state_size);

  static Floats q_like() { return random_floats(most * width, {0, 0.1}); }
  void run(const Cpu& cpu, index_t tokens) {
    const KdaSequence<float> sequence{{state.data(), nullptr, {}, 0}, 0, tokens, 0, false};
    const auto in = [&](Floats& x) { return matrix<const float>(x, tokens, width); };
    kda_recurrence(cpu,
                   KdaRecurrence<float, dim>{in(q), in(k), in(v), in(decay), matrix<const float>(beta, tokens, heads),
                                             matrix<float>(o, tokens, width), &sequence, 1});
  }
};

/// A token's step on a state [128, 128]: it decays, is read by the key, has the key's outer product added and is read
/// by the query.
inline void add_delta(std::vector<Case>& paths) {
  using D = DeltaAttention;
  const auto x = held<D>();
  for (const index_t tokens : {index_t{1}, D::most}) {
    const double flops = 7.0 * D::dim * D::dim * D::heads * static_cast<double>(tokens);
    const double bytes = 4.0 * static_cast<double>(2 * x->state.size() + tokens * (5 * D::width + D::heads));
    paths.push_back(
        attention_path(fmt::format("KDA's recurrence, 96 heads of 128, {} token{}", tokens, tokens == 1 ? "" : "s"),
                       flops, bytes, [=](const Cpu& cpu) { x->run(cpu, tokens); }));
  }
}

/// K3's heads over the latents of 4096 positions.
struct LatentOperands {
  using K3 = configs::KimiK3;
  static constexpr index_t heads = K3::num_attention_heads, rank = K3::kv_lora_rank;
  static constexpr index_t width = rank + K3::qk_rope_head_dim, positions = 4096, most = 6, rows = most * heads;
  Floats cache = random_floats(positions * width), q = random_floats(rows * width, {0, 0.1}), o = Floats(rows * rank);
  Floats scores = Floats(rows * attention_tile), sums = Floats(2 * rows);

  void run(const Cpu& cpu, index_t tokens) {
    const LatentSequence<float> sequence{
        matrix<float>(cache, positions, width), 0, tokens, {positions - tokens, tokens}};
    const index_t n = tokens * heads;
    const double scale = 1 / std::sqrt(static_cast<double>(K3::qk_nope_head_dim + K3::qk_rope_head_dim));
    latent_attention(cpu,
                     LatentAttention<float>{matrix<const float>(q, n, width), matrix<float>(o, n, rank),
                                            matrix<float>(scores, n, attention_tile), Vector<float>(sums.data(), n),
                                            Vector<float>(sums.data() + n, n), &sequence, 1, heads, scale});
  }
};

inline void add_latent(std::vector<Case>& paths) {
  using L = LatentOperands;
  const auto x = held<L>();
  for (const index_t tokens : {index_t{1}, L::most}) {
    const auto queries = static_cast<double>(tokens * L::heads);
    const double flops = queries * L::positions * 2 * (L::width + L::rank);
    const double bytes = 4 * (static_cast<double>(x->cache.size()) + queries * (L::width + L::rank));
    paths.push_back(
        attention_path(fmt::format("absorbed, 96 heads over 4096, {} token{}", tokens, tokens == 1 ? "" : "s"), flops,
                       bytes, [=](const Cpu& cpu) { x->run(cpu, tokens); }));
    paths.back().moves = Moves::reads;
  }
}

inline std::vector<Case> attention_paths() {
  std::vector<Case> paths;
  add_ttt(paths);
  add_blocks(paths);
  add_delta(paths);
  add_latent(paths);
  return paths;
}

}  // namespace k3spec::bench

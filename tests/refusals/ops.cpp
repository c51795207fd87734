// Ops and losses with a wrong extent.
#include <k3spec/config/rope_scaling.hpp>
#include <k3spec/losses/cross_entropy.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/ops/attention_residual.hpp>
#include <k3spec/ops/block_attention.hpp>
#include <k3spec/ops/chain_attention.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/embedding.hpp>
#include <k3spec/ops/grouped_gemm.hpp>
#include <k3spec/ops/kda.hpp>
#include <k3spec/ops/latent_attention.hpp>
#include <k3spec/ops/move_rows.hpp>
#include <k3spec/ops/rms_norm.hpp>
#include <k3spec/ops/rope.hpp>
#include <k3spec/ops/rope_frequencies.hpp>
#include <k3spec/ops/route.hpp>
#include <k3spec/ops/short_conv.hpp>
#include <k3spec/ops/sum_of_squares.hpp>
#include <k3spec/ops/ttt_attention.hpp>

#include "tests/refusals/table.hpp"

using namespace k3spec;
using refusals::Arguments;
using refusals::Blame;
using refusals::refuses;

namespace {

const Cpu device{1};

/// Attention of two heads, [nope ‖ rope] of 3 + 2 and values of 4.
constexpr index_t heads = 2, nope = 3, rope = 2, v = 4;
using Heads = AttentionHeads<heads, nope, rope, v>;
template <class T>
AttentionKeys<T> keys(Arguments& a, const std::string& name, index_t rows) {
  return {a.matrix<T>(name, rows, heads * (nope + v)), a.matrix<T>(name, rows, rope)};
}

template <class T>
AttentionSteps<T> steps(Arguments& a, const std::string& name) {
  AttentionSteps<T> all;
  for (int s = 0; s < 2; ++s) all.add(keys<T>(a, name, 6));
  return all;
}

template <class T>
AttentionResult<T> result(Arguments& a) {
  using Sums = typename AttentionResult<T>::Sums;
  const auto o = a.matrix<T>("o", 6, heads * v);
  return {o, a.matrix<Sums>("lse", 6, heads)};
}

struct Experts {
  static constexpr index_t num_experts = 5, num_experts_per_token = 2, num_expert_group = 1, topk_group = 1;
  static constexpr bool moe_renormalize = true;
  static constexpr double routed_scaling_factor = 1;
};

struct Rotated {
  static constexpr index_t qk_rope_head_dim = rope, max_position_embeddings = 64;
  static constexpr double rope_theta = 10000;
  static constexpr std::optional<Yarn> rope_scaling = std::nullopt;
};

ExpertRows<> sorted(Arguments& a) {
  const auto experts = a.planned_right([](auto& arena) { return ExpertRows<>::allocate(arena, 3, 5, 2); });
  std::vector<index_t> ids{0, 4, 1, 2, 0, 3};
  sort_by_expert(device, Matrix<index_t>(ids.data(), 3, 2), experts);
  return experts;
}

}  // namespace

TEST_CASE("rows of a matrix") {
  refuses({"ops/argmax.hpp argmax"}, [](Arguments& a) {
    argmax(device, a.of<const float>(a.extent("x", 4, Blame::any), a.least("x", 1)), a.vector<index_t>("y", 4));
  });
  refuses({"ops/embedding.hpp embedding_forward"}, [](Arguments& a) {
    const auto ids = a.tokens("ids", {0, 2, 1}, 3, Blame::any);
    const index_t n = a.extent("y", 5);
    embedding_forward<float>(device, ids, Matrix<const float>(a.memory<float>(3 * 5), 3, 5),
                             Matrix<float>(a.memory<float>(ids.size() * n), a.extent("y", 3), n));
  });
  refuses({"ops/embedding.hpp embedding_backward"}, [](Arguments& a) {
    const auto d_y = a.matrix<const float>("d_y", 3, 5);
    embedding_backward<float>(device, a.tokens("ids", {0, 2, 1}, 3, Blame::any), std::nullopt, d_y,
                              Matrix<float>(a.memory<float>(15), 3, 5));
  });
  refuses({"ops/rms_norm.hpp rms_norm_forward"}, [](Arguments& a) {
    rms_norm_forward<float>(device, a.vector<const float>("w", 5), 1e-5, a.matrix<const float>("x", 3, 5, Blame::any),
                            a.matrix<float>("y", 3, 5));
  });
  refuses({"ops/rms_norm.hpp rms_norm_backward"}, [](Arguments& a) {
    rms_norm_backward<float>(Workspace(device, a.scratch()), a.vector<const float>("w", 5), a.vector<float>("d_w", 5),
                             1e-5, a.matrix<const float>("x", 3, 5, Blame::any), a.matrix<const float>("d_y", 3, 5),
                             a.matrix<float>("d_x", 3, 5));
  });
  const auto moves = [](std::array<RowMove, 2>& both) {
    const Vector<RowMove> view(both.data(), 2);
    return Mirrored<Cpu, RowMove>{view, view};
  };
  refuses({"ops/move_rows.hpp move_rows"}, [&](Arguments& a) {
    std::array<RowMove, 2> both{{{a.index("from: row", 3, 4), 0}, {0, a.index("to: row", 2, 3)}}};
    move_rows(device, moves(both), a.most("moves", 2), a.of<float>(4, 5), a.of<float>(3, a.extent("to", 5)));
  });
  refuses({"ops/move_rows.hpp spread_rows"}, [&](Arguments& a) {
    std::array<RowMove, 2> both{{{a.index("from: row", 3, 4), 0}, {0, a.index("to: row", 2, 3)}}};
    const auto columns = a.vector<index_t>("columns", 5);
    spread_rows(device, moves(both), a.most("moves", 2), columns, a.of<float>(4, 5), a.of<float>(3, 9));
  });
  refuses({"ops/copy.hpp add"},
          [](Arguments& a) { add(device, a.matrix<const float>("x", 3, 5, Blame::any), a.matrix<float>("y", 3, 5)); });
  refuses({"ops/copy.hpp copy"}, [](Arguments& a) {
    copy(device, a.matrix<const float>("x", 3, 5, Blame::any), a.matrix<float>("y", 3, 5), Into::overwrite);
  });
  refuses({"ops/sum_of_squares.hpp sums_of_squares"}, [](Arguments& a) {
    const Vector<const float> x(a.memory<float>(3), 3);
    sums_of_squares<float>(device, x, a.vector<double>("sums", 1));
  });
  refuses({"ops/attention_residual.hpp attention_residual"}, [](Arguments& a) {
    std::vector<Matrix<float>> values{a.matrix<float>("values", 3, 5), a.matrix<float>("values", 3, 5)};
    const auto w = a.vector<const float>("w", 5);
    attention_residual<float, const float>(device, values, w, 1e-5, a.matrix<float>("y", 3, 5, Blame::any));
  });
  CHECK_THROWS_WITH_AS(
      (attention_residual<float, const float>(device, {}, Vector<const float>(), 1e-5, Matrix<float>())),
      "attention_residual: values: found 0, wanted 1 to 64", Error);
}

namespace {

/// Two sequences, of 2 tokens that are logged and of 1 that is not, with logs of 2.
std::vector<KdaSequence<float>> kda_sequences(Arguments& a) {
  const auto memory = [&] {
    return KdaMemory<float>{a.memory<float>(2 * KdaLayout<float, 4>::state_size),
                            a.memory<float>(2 * 2 * KdaLayout<float, 4>::log_size),
                            a.matrix<float>("window", 3 + 2, 3 * 5), 2};
  };
  const index_t row = a.index("rows of a sequence", 2, 3), logged = a.most("logged tokens", 2);
  return {{memory(), 0, logged, a.most("pending tokens", 2), true}, {memory(), row, 1, 0, false}};
}

}  // namespace

TEST_CASE("Kimi delta attention") {
  refuses({"ops/short_conv.hpp short_conv"}, [](Arguments& a) {
    const auto sequences = kda_sequences(a);
    const auto w = [&] { return a.matrix<const float>("w", 4, 5, Blame::any); };
    const auto y = [&] { return a.matrix<float>("y", 3, 5, Blame::any); };
    const index_t rows = a.least("scratch", 3 + 1), columns = a.extent("scratch", 3 * 5);
    short_conv(device, ShortConv<float>{a.matrix<const float>("x", 3, 3 * 5, Blame::any),
                                        {w(), w(), w()},
                                        {y(), y(), y()},
                                        a.of<float>(rows, columns),
                                        sequences.data(),
                                        2});
  });
  refuses({"ops/kda.hpp kda_recurrence"}, [](Arguments& a) {
    KdaSequence<float> sequence{{a.memory<float>(2 * KdaLayout<float, 4>::state_size),
                                 a.memory<float>(2 * 2 * KdaLayout<float, 4>::log_size),
                                 {},
                                 2},
                                a.index("rows of a sequence", 1, 4),
                                a.most("logged tokens", 2),
                                a.most("pending tokens", 2),
                                true};
    const auto input = [&](const char* name) { return a.matrix<const float>(name, 4, 2 * 4, Blame::any); };
    kda_recurrence(device, KdaRecurrence<float, 4>{input("q"), input("k"), input("v"), input("decay"),
                                                   a.matrix<const float>("beta", 4, 2, Blame::any),
                                                   a.matrix<float>("o", 4, 2 * 4, Blame::any), &sequence, 1});
  });
  // Rows of one distance, in all of them.
  Arguments a;
  const auto wide = a.of<float>(4, 10);
  for (const std::size_t other : {0U, 1U, 2U, 3U, 4U}) {
    std::array<Matrix<float>, 5> x;
    for (auto& one : x) one = a.of<float>(4, 8);
    x[other] = wide.columns(0, 8);
    CHECK_THROWS_WITH_AS(
        kda_recurrence(device, KdaRecurrence<float, 4>{x[0], x[1], x[2], x[3], a.of<float>(4, 2), x[4], nullptr, 0}),
        doctest::Contains("from row to row"), Error);
  }
}

TEST_CASE("experts") {
  refuses({"ops/route.hpp route"}, [](Arguments& a) {
    route<Experts>(device, a.matrix<float>("scores", 3, 5, Blame::any), a.vector<const float>("correction", 5),
                   a.matrix<index_t>("ids", 3, 2), a.matrix<float>("weights", 3, 2));
  });
  refuses({"ops/route.hpp sort_by_expert"}, [](Arguments& a) {
    const auto experts = a.planned_right([](auto& arena) { return ExpertRows<>::allocate(arena, 3, 5, 2); });
    const index_t rows = a.extent("ids", 3), columns = a.extent("ids", 2);
    const Matrix<index_t> ids(a.memory<index_t>(rows * columns), rows, columns);
    if (ids.size() > 0) ids(rows - 1, columns - 1) = a.index("ids", 4, 5);
    if (ids.size() == 0) a.index("ids", 4, 5);
    sort_by_expert(device, ids, experts);
  });
  refuses({"ops/route.hpp sort_by_expert"}, [](Arguments& a) {
    auto experts = a.planned_right([](auto& arena) { return ExpertRows<>::allocate(arena, 3, 5, 2); });
    experts.row = a.vector<index_t>("row", 6);
    sort_by_expert(device, Matrix<index_t>(a.memory<index_t>(6), 3, 2), experts);
  });
  refuses({"ops/route.hpp gather_expert_rows"}, [](Arguments& a) {
    gather_expert_rows<float>(device, sorted(a), a.matrix<float>("from", 3, 4, Blame::any),
                              a.matrix<float>("to", 6, 4));
  });
  refuses({"ops/route.hpp gather_expert_rows"}, [](Arguments& a) {
    auto experts = sorted(a);
    experts.row = a.vector<index_t>("row", 6);
    gather_expert_rows<float>(device, experts, a.of<float>(3, 4), a.of<float>(experts.row.extent(0), 4));
  });
  refuses({"ops/route.hpp combine_experts"}, [](Arguments& a) {
    auto experts = sorted(a);
    experts.row = a.vector<index_t>("row", 6);
    combine_experts<float, float>(device, experts, a.of<float>(experts.row.extent(0), 4), a.of<float>(3, 2),
                                  a.of<float>(3, 4));
  });
  refuses({"ops/route.hpp combine_experts"}, [](Arguments& a) {
    combine_experts<float, float>(device, sorted(a), a.matrix<float>("results", 6, 4, Blame::any),
                                  a.matrix<float>("weights", 3, 2), a.matrix<float>("y", 3, 4));
  });
}

TEST_CASE("products whose ops are known when compiling") {
  refuses({"backend/product.hpp gemm"}, [](Arguments& a) {
    gemm<Op::plain, Op::transposed>(device, a.matrix<const float>("rows of op(A)", 3, 5, Blame::any),
                                    a.matrix<const float>("op(B)", 4, 5, Blame::any),
                                    a.matrix<float>("C", 3, 4, Blame::any));
  });
}

TEST_CASE("products of groups of rows") {
  const auto weights_of = [](index_t outputs, index_t inputs) {
    PrepackedGroups<float> weights(3, outputs, inputs);
    const std::vector<float> ones(static_cast<std::size_t>(outputs * inputs), 1);
    for (index_t g = 0; g < 3; ++g) weights.set(g, Matrix<const float>(ones.data(), outputs, inputs));
    return weights;
  };
  refuses({"ops/grouped_gemm.hpp grouped_gemm"}, [&](Arguments& a) {
    const PrepackedGroups<float> weights = weights_of(5, 4);
    const index_t n = a.extent("begin", 4), end = a.index("rows of a group", 6, 7);
    const Vector<index_t> begin(a.memory<index_t>(n), n);
    for (index_t g = 0; g < n; ++g) begin(g) = g == 3 ? end : std::min<index_t>(g, 1);
    grouped_gemm(device, Vector<const index_t>(begin), a.matrix<const float>("x", 6, 4, Blame::any), weights,
                 a.matrix<float>("y", 6, 5));
  });
  refuses({"ops/grouped_gemm.hpp grouped_mlp"}, [&](Arguments& a) {
    const PrepackedGroups<float> in = weights_of(10, 4), out = weights_of(7, 5);
    const index_t n = a.extent("begin", 4), end = a.index("rows of a group", 6, 7);
    const Vector<index_t> begin(a.memory<index_t>(n), n);
    for (index_t g = 0; g < n; ++g) begin(g) = g == 3 ? end : std::min<index_t>(g, 1);
    grouped_mlp(device, Vector<const index_t>(begin), expr::arg<0> * expr::arg<1>,
                a.matrix<float>("x", 6, 4, Blame::any),
                GroupedMLPParts<float, PrepackedGroups<float>>{in, out, a.matrix<float>("gate_up", 6, 10),
                                                               a.matrix<float>("product", 6, 5)},
                a.matrix<float>("y", 6, 7));
  });
}

TEST_CASE("rotation") {
  const auto problem = [](Arguments& a, const char* q, const char* k_rope) {
    return RopeProblem<Heads, float>{rope_frequencies<Rotated>(),
                                     {},
                                     a.matrix<float>(q, 3, heads * (nope + rope), Blame::any),
                                     a.matrix<float>(k_rope, 3, rope)};
  };
  refuses({"ops/rope.hpp rope_forward"}, [&](Arguments& a) { rope_forward(device, problem(a, "q", "k_rope")); });
  refuses({"ops/rope.hpp rope_backward"}, [&](Arguments& a) { rope_backward(device, problem(a, "d_q", "d_k_rope")); });
}

TEST_CASE("attention over a cache of latents") {
  refuses({"ops/latent_attention.hpp latent_attention"}, [](Arguments& a) {
    // Of 3 tokens those behind the first, 4 or more positions before them.
    const index_t before = a.index("rows seen", 4, 6), row = a.index("rows of a sequence", 1, 2);
    const auto sees = [=](index_t t) { return Interval{before < 0 ? -1 : 0, before + t}; };
    const index_t positions = a.least("rows seen", 5), columns = a.extent("kv", 5, Blame::any);
    const LatentSequence<float, decltype(sees)> sequence{a.of<float>(positions, columns), row, 2, sees};
    const auto q = a.matrix<const float>("q", 6, 5, Blame::any);
    const index_t rows = a.extent("o", 6), values = a.most("o", 5);
    latent_attention(device, LatentAttention<float, decltype(sees)>{
                                 q, a.of<float>(rows, values), a.matrix<float>("scores", 6, attention_tile),
                                 a.vector<float>("top", 6), a.vector<float>("total", 6), &sequence, 1, 2, 1});
  });
}

TEST_CASE("attention of blocks") {
  // One sequence of 5 positions, two blocks of 3 that open at 2 and 4.
  static const std::vector<index_t> anchors{2, 4};
  static const BlockSpan span{1, 5, 2, 3};
  using Problem = BlockProblem<Heads, float, BlockVisibility>;
  const auto problem = [](Arguments& a) {
    return Problem{span,
                   a.matrix<const float>("q", 6, heads * (nope + rope)),
                   keys<const float>(a, "context", 5),
                   keys<const float>(a, "noise", 6),
                   {anchors.data()},
                   1};
  };
  refuses({"ops/block_attention.hpp block_attention_forward"}, [&](Arguments& a) {
    const auto p = problem(a);
    block_attention_forward(device, p, result<float>(a));
  });
  refuses({"ops/block_attention.hpp block_attention_backward"}, [&](Arguments& a) {
    const auto p = problem(a);
    const auto r = result<const float>(a);
    const auto d_o = a.matrix<const float>("d_o", 6, heads * v);
    const BlockGradients<float> d{a.matrix<float>("d_q", 6, heads * (nope + rope)), keys<float>(a, "d_context", 5),
                                  keys<float>(a, "d_noise", 6)};
    block_attention_backward(device, p, r, d_o, d, a.scratch());
  });
  refuses({"ops/block_attention.hpp block_attention_forward"}, [&](Arguments& a) {
    const std::vector<index_t> own{2, a.index("anchor of block 1", 4, 6)};
    Arguments right;
    auto p = problem(right);
    p.visible.anchors = own.data();
    block_attention_forward(device, p, result<float>(right));
  });
}

TEST_CASE("attention of test-time-training steps") {
  using Problem = TttProblem<Heads, float, CausalVisibility>;
  const auto problem = [](Arguments& a) {
    const auto q = a.matrix<const float>("q", 6, heads * (nope + rope));
    return Problem{{2, 3, 3}, q, steps<const float>(a, "steps"), {}, 1};
  };
  refuses({"ops/chain_attention.hpp chain_attention"}, [](Arguments& a) {
    const std::array<CachedRows, 3> seen{{{0, a.least("cached rows", 1)}, {a.index("cached rows", 2, 6), 3}, {0, 1}}};
    const auto cached = [&](index_t n) { return Vector<const CachedRows>(seen.data(), n); };
    AttentionSteps<const float> drafted;
    drafted.add({a.matrix<float>("steps: kv", 2, heads * (nope + v)), a.matrix<float>("steps: k_rope", 2, rope)});
    const ChainAttention<Heads, float> problem{
        a.of<float>(2, a.extent("q", heads * (nope + rope))),
        cached(a.extent("cached", 2)),
        {a.of<float>(6, a.extent("cache: kv", heads * (nope + v))), a.matrix<float>("cache: k_rope", 6, rope)},
        drafted,
        1};
    const auto o = a.matrix<float>("o", 2, heads * v);
    chain_attention(device, problem, cached(a.extent("cached", 2)),
                    AttentionResult<float>{o, a.matrix<LogSumExp<float>>("lse", 2, heads)});
  });
  refuses({"ops/ttt_attention.hpp ttt_attention_forward"}, [&](Arguments& a) {
    const auto p = problem(a);
    ttt_attention_forward(device, p, result<float>(a));
  });
  refuses({"ops/ttt_attention.hpp ttt_attention_backward"}, [&](Arguments& a) {
    const auto p = problem(a);
    const auto r = result<const float>(a);
    const auto d_o = a.matrix<const float>("d_o", 6, heads * v);
    TttGradients<float> d{a.matrix<float>("d_q", 6, heads * (nope + rope)), steps<float>(a, "d_steps")};
    d.d_steps.add(d.d_steps[0]);
    d.d_steps.count = a.extent("d_steps", 2);
    ttt_attention_backward(device, p, r, d_o, d, a.scratch());
  });
  refuses({"ops/ttt_attention.hpp ttt_attention_forward"}, [&](Arguments& a) {
    const index_t first = a.index("span", 1, 2);
    AttentionSteps<const float> all;
    all.add({Matrix<const float>(a.memory<float>(42), 3, 14), Matrix<const float>(a.memory<float>(6), 3, 2)});
    all.add(keys<const float>(a, "steps", 2));  // a later step's keys are as many as there are queries
    const Problem late{{1, 2, 3, first}, Matrix<const float>(a.memory<float>(20), 2, 10), all, {}, 1};
    ttt_attention_forward(device, late,
                          AttentionResult<float>{Matrix<float>(a.memory<float>(16), 2, 8),
                                                 Matrix<LogSumExp<float>>(a.memory<LogSumExp<float>>(4), 2, 2)});
  });
  AttentionSteps<float> full;
  for (index_t s = 0; s < max_attention_steps; ++s) full.add({});
  CHECK_THROWS_WITH_AS(full.add({}), "attention: steps: found more, wanted at most 16", Error);
}

TEST_CASE("a label's column") {
  refuses({"losses/cross_entropy.hpp subtract_label"}, [](Arguments& a) {
    subtract_label<Matrix<const float>, float>(device, Matrix<const float>(a.memory<float>(12), 3, 4),
                                               a.vector<const float>("largest", 3), a.ids("labels", {0, 2, 3}, 4),
                                               a.vector<float>("losses", 3));
  });
  refuses({"losses/cross_entropy.hpp subtract_label_backward"}, [](Arguments& a) {
    subtract_label_backward<Matrix<float>, float>(device, a.ids("labels", {0, 2, 3}, 4), 1,
                                                  a.vector<const float>("d_losses", 3),
                                                  Matrix<float>(a.memory<float>(12), 3, 4));
  });
}

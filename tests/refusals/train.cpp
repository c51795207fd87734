// Training with a wrong extent: batches, teachers, objectives, anchors, documents.
#include <k3spec/batches/anchors.hpp>
#include <k3spec/batches/fingerprint.hpp>
#include <k3spec/batches/target_features.hpp>
#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_objective.hpp>
#include <k3spec/objectives/ttt_objective.hpp>
#include <k3spec/optimiser/gradient_norm.hpp>

#include "tests/refusals/models.hpp"
#include "tests/refusals/table.hpp"

using namespace k3spec;
using refusals::Arguments;
using refusals::Blame;
using refusals::both;
using refusals::refuses;

namespace {

const Cpu device{1};
constexpr index_t length = 3, rows = 6;

/// Two documents of 2 and 1 in each sequence.
Documents documents(Arguments& a) {
  std::vector<index_t> start{0, 0, 2, 0, 0, 2}, remaining{1, 0, 0, 1, 0, 0};
  const auto view = [&](const char* name, const std::vector<index_t>& values) {
    const index_t n = a.optional_extent(name, rows);
    index_t* p = a.memory<index_t>(n);
    std::copy_n(values.begin(), std::min(n, rows), p);
    return Vector<const index_t>(p, n);
  };
  return {view("document starts", start), view("doc_remaining", remaining)};
}

}  // namespace

TEST_CASE("EAGLE-3's loss") {
  const TttLoss loss{.lk = LkLoss::alpha};
  const auto logits = [](Arguments& a) { return a.matrix<const float>("logits", 3, 5, Blame::any); };
  const auto p = [](Arguments& a) { return a.matrix<const float>("p", 3, 5, Blame::any); };
  refuses({"objectives/ttt_loss.hpp row_alphas"},
          [&](Arguments& a) { TttLoss::row_alphas(device, logits(a), p(a), a.vector<float>("alphas", 3)); });
  refuses({"objectives/ttt_loss.hpp row_losses"},
          [&](Arguments& a) { TttLoss::row_losses(device, logits(a), p(a), a.vector<float>("losses", 3)); });
  refuses({"objectives/ttt_loss.hpp row_gradients"}, [&](Arguments& a) {
    loss.row_gradients(device, logits(a), p(a), 0, a.vector<const float>("d_rows", 3),
                       a.matrix<float>("d_logits", 3, 5), a.scratch());
  });
}

TEST_CASE("rows that are picked out") {
  refuses({"batches/supervised_rows.hpp list_supervised"}, [](Arguments& a) {
    const Vector<const std::uint8_t> all(a.memory<std::uint8_t>(3, 1), 3);
    list_supervised(all, a.vector<index_t>("rows", 3));
  });
  refuses({"ops/gather_rows.hpp gather_rows"}, [](Arguments& a) {
    const auto from = a.of<const float>(4, a.extent("to", 5));
    gather_rows(device, a.ids("rows", {0, 3}, 4, Blame::any), from, a.matrix<float>("to", 2, 5));
  });
  refuses({"ops/gather_rows.hpp scatter_rows"}, [](Arguments& a) {
    const auto to = a.of<float>(4, a.extent("from", 5));
    scatter_rows(device, a.ids("rows", {0, 3}, 4, Blame::any), a.matrix<const float>("from", 2, 5), to);
  });
  refuses({"ops/gather_columns.hpp gather_columns"}, [](Arguments& a) {
    const Matrix<const float> from = a.of<const float>(2, 4);
    gather_columns(device, a.ids("columns", {0, 3, 1}, 4, Blame::any), from, a.matrix<float>("to", 2, 3));
  });
  refuses({"ops/row_adjoints.hpp row_adjoints"}, [](Arguments& a) {
    row_adjoints(device, RowAdjoint{1}, a.vector<const std::uint8_t>("counts", 3), a.vector<const float>("alphas", 3),
                 Vector<float>(a.memory<float>(3), 3));
  });
  refuses({"ops/byte_hash.hpp hash_blocks"}, [](Arguments& a) {
    const Vector<const std::byte> bytes(a.memory<std::byte>(9), 9);
    hash_blocks(device, bytes, a.vector<std::uint64_t>("hashes", 1));
  });
  refuses({"batches/teacher.hpp shift_states_left"}, [](Arguments& a) {
    const index_t n = a.extent("length", rows);
    shift_states_left(device, a.of<float>(n == 0 ? 7 : n, 4), length);
  });
}

TEST_CASE("teachers") {
  // 61 tokens of the target, 29 of the draft's, 8 rows.
  const auto selected = [](Arguments& a) {
    std::vector<index_t> ids;
    for (index_t i = 0; i < 29; ++i) ids.push_back(2 * i + 4);
    return a.ids("selected", ids, 61, Blame::any);
  };
  refuses({"batches/teacher.hpp check"}, [&](Arguments& a) {
    LogitsTeacher<float>{a.of<const float>(a.extent("logits", 8), 61), selected(a)}.check(8, 29);
  });
  refuses({"batches/teacher.hpp check"}, [&](Arguments& a) {
    const index_t n = a.extent("last_hidden", 8), width = a.extent("selected_head", 5);
    HiddenTeacher<float>{a.of<const float>(n, width), a.matrix<const float>("selected_head", 29, 5)}.check(8, 29);
  });
  refuses({"batches/teacher.hpp selected_logits"}, [&](Arguments& a) {
    const LogitsTeacher<float> teacher{a.of<const float>(a.least("rows", 8), 61), selected(a)};
    teacher.selected_logits(device, 2, a.of<float>(a.most("rows", 6), a.extent("out", 29)));
  });
  refuses({"batches/teacher.hpp selected_logits"}, [&](Arguments& a) {
    const HiddenTeacher<float> teacher{a.of<const float>(a.least("rows", 8), 5),
                                       a.matrix<const float>("selected_head", 29, 5, Blame::any)};
    teacher.selected_logits(device, 2, a.of<float>(a.most("rows", 6), a.extent("out", 29)));
  });
}

namespace {

template <class T, index_t Width>
TttBatch<T, Width> ttt_batch(Arguments& a) {
  const auto mask = [&](const char* name, index_t n) { return a.vector<std::uint8_t>(name, n, 1); };
  return {.length = a.index("length", length, 4),
          .input_ids = a.tokens("input_ids", {0, 1, 2, 3, 4, 22}, 23),
          .attention_mask = mask("attention_mask", rows),
          .loss_mask = mask("loss_mask", rows),
          .aux = a.rows<const T, Width>("aux", rows),
          .teacher_top = a.ids("teacher_top", {0, 1, 2, 3, 4, 22}, 23),
          .t2d = mask("t2d", 23),
          .documents = documents(a),
          .position_ids = a.optional_vector<index_t>("position_ids", rows)};
}

}  // namespace

TEST_CASE("EAGLE-3's batch and objective") {
  using Draft = Eagle3Draft<refusals::Eagle3>;
  auto& model = both<Draft>();
  const auto batch = [](Arguments& a) { return ttt_batch<float, Draft::aux_width>(a); };
  const auto teacher = [](Arguments& a) {
    return LogitsTeacher<float>{a.of<const float>(a.extent("logits", rows), 23),
                                a.ids("selected", {0, 1, 2, 3, 4, 22}, 23)};
  };
  TttObjective<Draft, float> objective(rows, 2);
  refuses({"batches/ttt_batch.hpp check_ttt_batch"}, [](Arguments& a) {
    auto b = ttt_batch<float, 3>(a);
    // That a token is one is the embedding's to say.
    const index_t n = b.input_ids.extent(0);
    if (n == rows && (b.input_ids(rows - 1) < 0 || b.input_ids(rows - 1) == 23)) throw Error("token id at row", "", "");
    check_ttt_batch(b, rows, 23);
  });
  refuses({"batches/supervised_rows.hpp mark_supervised"}, [](Arguments& a) {
    TttBatch<float, 3> b{};
    b.length = a.index("length", length, 4);
    b.loss_mask = a.vector<std::uint8_t>("loss_mask", rows, 1);
    b.t2d = Vector<const std::uint8_t>(a.memory<std::uint8_t>(23, 1), 23);
    b.teacher_top = a.ids("teacher_top", {0, 1, 2, 3, 4, 22}, 23);
    b.documents.remaining = a.optional_vector<index_t>("doc_remaining", rows, 0);
    mark_supervised(b, a.index("steps", 2, 17), Vector<std::uint8_t>(a.memory<std::uint8_t>(rows), rows));
  });
  refuses({"objectives/ttt_chains.hpp count_chains"}, [](Arguments& a) {
    TttBatch<float, 3> b{};
    b.length = length;
    const index_t n = a.extent("rows", rows, Blame::any);
    b.loss_mask = Vector<const std::uint8_t>(a.memory<std::uint8_t>(n, 1), n);
    const std::vector<Vector<std::uint8_t>> right{a.vector<std::uint8_t>("right", rows),
                                                  a.vector<std::uint8_t>("right", rows)};
    TttMetrics sums(2);
    count_chains(b, 2, a.index("rows", 4, rows), right, sums);
  });
  refuses({"objectives/ttt_objective.hpp count"}, [&](Arguments& a) {
    // Tokens are looked at by what embeds them, which this loss does not.
    const auto b = ttt_batch<float, Draft::aux_width>(a);
    const index_t n = b.input_ids.extent(0);
    if (n == rows && (b.input_ids(rows - 1) < 0 || b.input_ids(rows - 1) == 23)) throw Error("token id at row", "", "");
    objective.count(device, model.w(), b, teacher(a));
  });
  refuses({"objectives/ttt_objective.hpp evaluate_only"},
          [&](Arguments& a) { objective.evaluate_only(device, model.w(), batch(a), teacher(a)); });
  refuses({"objectives/ttt_objective.hpp forward_backward"}, [&](Arguments& a) {
    objective.forward_backward(device, model.w(), model.d_w(), batch(a), teacher(a), std::nullopt,
                               a.matrix<float>("d_aux", rows, Draft::aux_width));
  });
  refuses({"objectives/ttt_objective.hpp forward_backward"}, [&](Arguments& a) {
    Arguments right;
    const HiddenTeacher<float> hidden{a.of<const float>(a.extent("last_hidden", rows), 5),
                                      a.matrix<const float>("selected_head", Draft::draft_vocabulary, 5)};
    objective.forward_backward(device, model.w(), model.d_w(), batch(right), hidden);
  });
  refuses({"objectives/ttt_objective.hpp out"}, [&](Arguments& a) { (void)objective.out(a.index("step", 1, 2)); });
  refuses({"objectives/ttt_metrics.hpp operator[]"}, [](Arguments& a) { (void)TttMetrics(2)[a.index("step", 1, 16)]; });
}

namespace {

constexpr index_t positions = 5, blocks = 2, block_size = 3;
const BlockSpan span{1, positions, blocks, block_size};

template <class T, index_t Width>
BlockBatch<T, Width> block_batch(Arguments& a, bool prefixed) {
  BlockBatch<T, Width> b{.length = a.extent("length", positions),
                         .input_ids = a.tokens("input_ids", {0, 1, 2, 3, 21}, 22, Blame::own, "token at row 4"),
                         .loss_mask = a.vector<std::uint8_t>("loss_mask", positions, 1),
                         .target_hidden = a.rows<const T, Width>("target_hidden", positions),
                         .anchors = a.tokens("anchors", {1, 2}, positions, refusals::Blame::own, "anchor"),
                         .keep = a.vector<std::uint8_t>("keep", blocks, 1)};
  b.documents.start = a.optional_vector<index_t>("document starts", positions);
  std::vector<index_t> left{4, 3, 2, 1, 0};
  const index_t n = a.optional_extent("doc_remaining", positions);
  left.resize(static_cast<std::size_t>(n));
  index_t* p = a.memory<index_t>(n);
  std::copy(left.begin(), left.end(), p);
  b.documents.remaining = Vector<const index_t>(p, n);
  if (!prefixed) return b;
  const index_t prefixes = a.optional_extent("prefix_lengths", blocks), l = a.index("prefix length", 1, block_size);
  index_t* q = a.memory<index_t>(prefixes, 1);
  q[prefixes - 1] = l;
  b.prefix_lengths = Vector<const index_t>(q, prefixes);
  return b;
}

}  // namespace

TEST_CASE("block drafts' batches and objectives") {
  refuses({"batches/block_batch.hpp fill", "batches/block_batch.hpp check_block_batch"}, [](Arguments& a) {
    const auto targets = a.planned("block targets", blocks * block_size,
                                   [](auto& arena, index_t n) { return BlockTargets::allocate(arena, n); });
    const auto b = block_batch<float, 3>(a, true);
    check_block_batch(span, 22, b);
    targets.fill({Slot::anchor_plus_k, 22, 4}, span, b);
  });
  using Dflash = DFlashDraft<refusals::Dflash>;
  auto& flash = both<Dflash>();
  DFlashObjective<Dflash, float> of_dflash(1, positions, blocks, 4);
  const auto target = [](Arguments& a) {
    return DFlashTarget<float>{a.matrix<const float>("embed_tokens", 23, Dflash::hidden),
                               a.matrix<const float>("lm_head", 23, Dflash::hidden)};
  };
  const auto fewer = [](auto batch) {
    // The vocabulary has one token more than the batches above say.
    if (batch.input_ids.extent(0) == positions && batch.input_ids(positions - 1) == 22) {
      const_cast<index_t*>(batch.input_ids.data())[positions - 1] = 23;
    }
    return batch;
  };
  const auto of_flash = [&](Arguments& a) { return fewer(block_batch<float, Dflash::target_width>(a, true)); };
  refuses({"objectives/dflash_objective.hpp count"}, [&](Arguments& a) { of_dflash.count(of_flash(a)); });
  refuses({"objectives/dflash_objective.hpp evaluate_only"},
          [&](Arguments& a) { of_dflash.evaluate_only(device, flash.w(), target(a), of_flash(a)); });
  refuses({"objectives/dflash_objective.hpp forward_backward"}, [&](Arguments& a) {
    of_dflash.forward_backward(device, flash.w(), flash.d_w(), target(a), of_flash(a), std::nullopt,
                               a.matrix<float>("d_target_hidden", positions, Dflash::target_width));
  });

  using Dspark = DSparkDraft<refusals::Dspark>;
  auto& spark = both<Dspark>();
  DSparkObjective<Dspark, float> of_dspark(1, positions, blocks, {});
  const auto of_spark = [&](Arguments& a) -> DSparkObjective<Dspark, float>::Batch {
    return {fewer(block_batch<float, Dspark::target_width>(a, false)),
            a.rows<const float, Dspark::hidden>("target_last_hidden", positions)};
  };
  refuses({"objectives/dspark_objective.hpp count"}, [&](Arguments& a) { of_dspark.count(of_spark(a)); });
  refuses({"objectives/dspark_objective.hpp evaluate_only"},
          [&](Arguments& a) { of_dspark.evaluate_only(device, spark.w(), of_spark(a)); });
  refuses({"objectives/dspark_objective.hpp forward_backward"}, [&](Arguments& a) {
    of_dspark.forward_backward(device, spark.w(), spark.d_w(), of_spark(a), std::nullopt,
                               a.matrix<float>("d_target_hidden", positions, Dspark::target_width));
  });

  using Heads = DSparkHeads<Dspark, float>;
  const auto heads = [](Arguments& a) {
    return a.planned("out", 6, [](auto& arena, index_t n) { return Heads::allocate(arena, n, block_size); });
  };
  const auto previous = [](Arguments& a) { return a.tokens("previous_ids", {0, 1, 2, 3, 4, 22}, 23); };
  refuses({"objectives/dspark_heads.hpp forward"}, [&](Arguments& a) {
    heads(a).forward(device, spark.w(), previous(a), a.rows<const float, Dspark::hidden>("out", 6, Blame::any));
  });
  refuses({"objectives/dspark_heads.hpp backward"}, [&](Arguments& a) {
    const auto h = heads(a);
    const auto out = a.rows<const float, Dspark::hidden>("out", 6, Blame::any);
    h.backward(Workspace(device, a.scratch()), spark.w(), spark.d_w(), previous(a), out,
               a.rows<float, Dspark::hidden>("d_out", 6));
  });
  refuses({"objectives/block_metrics.hpp add_block"}, [](Arguments& a) {
    DSparkSums<block_size> sums;
    sums.add_block(std::vector<DSparkSlot>(static_cast<std::size_t>(a.most("slots", block_size))));
  });
}

TEST_CASE("anchors") {
  // Two rows of 5 positions: any of the first four may be one.
  static const BlockSpan two{2, 5, 2, 3};
  const auto mask = [](Arguments& a) { return a.vector<std::uint8_t>("loss_mask", 10, 1); };
  const auto left = [](Arguments& a) { return Documents{{}, a.optional_vector<index_t>("doc_remaining", 10, 4)}; };
  refuses({"batches/anchors.hpp find_valid_anchors"}, [&](Arguments& a) {
    find_valid_anchors(Slot::anchor_plus_k_plus_1, two, mask(a), left(a), a.matrix<std::uint8_t>("valid", 2, 4));
  });
  refuses({"batches/anchors.hpp sample_anchors"}, [](Arguments& a) {
    sample_anchors(a.matrix<const std::uint8_t>("valid", 2, 4, Blame::any), a.matrix<const double>("keys", 2, 4),
                   a.matrix<index_t>("anchors", 2, 2, Blame::any), a.matrix<std::uint8_t>("keep", 2, 2),
                   a.vector<index_t>("scratch", 4));
  });
  AnchorSampler sampler(Slot::anchor_plus_k_plus_1, two);
  refuses({"batches/anchors.hpp sample"}, [&](Arguments& a) { sampler.sample(mask(a), left(a), 1, 2); });
  refuses({"batches/anchors.hpp draw"}, [&](Arguments& a) { sampler.draw(mask(a), left(a), 1, 2); });
  CHECK_THROWS_WITH_AS(AnchorSampler(Slot::anchor_plus_k, {-1, 5, 2, 3}),
                       "anchors: sequences: found -1, wanted at least 0", Error);
}

TEST_CASE("documents") {
  const auto lens = [](Arguments& a, index_t columns = 2) {
    const index_t n = a.extent("documents", 2, Blame::any);
    const auto m = a.of<index_t>(n, columns);
    for (index_t b = 0; b < n; ++b) m(b, 0) = 2, m(b, 1) = a.extent("documents", 1);
    return m;
  };
  refuses({"batches/documents.hpp check_documents"}, [](Arguments& a) {
    index_t n[2] = {2, a.extent("documents", 1)};
    check_documents(Matrix<const index_t>(n, 1, 2), 3);
  });
  refuses({"batches/documents.hpp document_bounds"}, [&](Arguments& a) {
    const auto all = lens(a);
    document_bounds(all, 3, a.vector<index_t>("start", rows), a.vector<index_t>("remaining", rows));
  });
  refuses({"batches/documents.hpp of"}, [&](Arguments& a) {
    const auto all = lens(a);
    if (all.extent(0) == 0) throw Error("documents", "none: every row is one", "");
    DocumentBounds(rows).of(all, 3);
  });
}

TEST_CASE("the frozen target's side") {
  using Config = refusals::Target;
  static Parameters<K3Target<Config>, float>& parameters = both<K3Target<Config>>().parameters;
  const auto own = [] {
    Parameters<K3Target<Config>, float> p;
    std::copy_n(parameters.all().data(), parameters.all().size(), p.all().data());
    return p;
  };
  const auto windows = [](Arguments& a) {
    const index_t r = a.extent("windows", 2), c = a.extent("windows", length);
    TextWindows w{a.of<const index_t>(r, c)};
    w.loss_mask = a.optional_vector<std::uint8_t>("loss_mask", rows, 1);
    const index_t n = a.optional_extent("seq_lens", 2);
    const auto lens = a.of<index_t>(n, 1);
    for (index_t b = 0; b < n; ++b) lens(b, 0) = length;
    w.seq_lens = lens;
    return w;
  };
  refuses({"batches/target_states.hpp check"}, [&](Arguments& a) { windows(a).check(2, length, Packing::apart); });
  refuses({"batches/target_states.hpp part"}, [](Arguments& a) {
    TextWindows w{a.of<const index_t>(2, length)};
    w.loss_mask = a.vector<std::uint8_t>("loss_mask", rows);
    const index_t n = a.extent("seq_lens", 2);
    w.seq_lens = a.of<index_t>(n, 1);
    if (w.loss_mask.extent(0) == 0 || n == 0) throw Error("loss_mask and seq_lens", "none", "may be left out");
    (void)w.part(a.index("part", 1, 2), 1);
  });
  refuses({"batches/target_states.hpp counts"}, [](Arguments& a) {
    TextWindows w{a.of<const index_t>(2, length)};
    w.loss_mask = Vector<const std::uint8_t>(a.memory<std::uint8_t>(rows, 1), rows);
    (void)w.counts(a.index("row", 5, rows));
  });
  TargetStates<Config, float> states(own(), {{Tap::What::embedding}}, {2, length, Packing::apart, 2});
  refuses({"batches/target_states.hpp run"},
          [&](Arguments& a) { states.run(device, windows(a), a.index("slot", 1, 2)); });
  refuses({"batches/target_states.hpp shift_last"},
          [&](Arguments& a) { states.shift_last(device, a.index("slot", 1, 2)); });
  refuses({"batches/target_states.hpp last"}, [&](Arguments& a) { (void)states.last(a.index("slot", 1, 2)); });
  refuses({"batches/target_states.hpp tapped"}, [&](Arguments& a) { (void)states.tapped(a.index("slot", 1, 2)); });
  const std::vector<index_t> draft_ids{1, 3, 5, 7, 9, 11};
  TargetFeatures<Config, refusals::Eagle3, float> features(own(), DraftVocabulary(draft_ids, 23), {0, 1}, {},
                                                           {2, length, Packing::apart, 2});
  refuses({"batches/target_features.hpp make"},
          [&](Arguments& a) { features.make(device, windows(a), a.index("slot", 1, 2)); });
  refuses({"batches/target_features.hpp made"},
          [&](Arguments& a) { features.made(windows(a), a.index("slot", 1, 2)); });
  refuses({"batches/target_features.hpp teacher"},
          [&](Arguments& a) { (void)features.teacher(a.index("slot", 1, 2)); });
}

TEST_CASE("a gradient's norm") {
  GradientNorm norm(device, 3);
  refuses({"optimiser/gradient_norm.hpp operator()"}, [&](Arguments& a) {
    // One block of sums holds up to so many.
    norm(device, Vector<const float>(a.memory<float>(expr::square_block + 1), a.most("sums", expr::square_block)));
  });
}

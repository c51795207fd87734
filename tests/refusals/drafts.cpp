// Drafts with a wrong extent.
#include <k3spec/drafts/aux_projection.hpp>
#include <k3spec/drafts/block_backbone.hpp>
#include <k3spec/drafts/block_layer.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/draft_vocabulary.hpp>

#include "tests/refusals/models.hpp"
#include "tests/refusals/table.hpp"

using namespace k3spec;
using refusals::Arguments;
using refusals::Blame;
using refusals::both;
using refusals::refuses;

namespace {

const Cpu device{1};

// Two sequences of 3 rows for EAGLE-3; one of 5 positions with two blocks of 3 for the others.
constexpr index_t length = 3, rows = 6;
const std::vector<index_t> anchors{2, 4};
const BlockSpan span{1, 5, 2, 3};
BlockVisibility visible() { return {anchors.data()}; }

}  // namespace

TEST_CASE("a draft's vocabulary") {
  const DraftVocabulary vocabulary(std::vector<index_t>{1, 3}, 5);
  refuses({"io/draft_vocabulary.hpp target_id"},
          [&](Arguments& a) { (void)vocabulary.target_id(a.index("draft id", 1, 2)); });
  refuses({"io/draft_vocabulary.hpp contains"},
          [&](Arguments& a) { (void)vocabulary.contains(a.index("token", 4, 5)); });
  refuses({"io/draft_vocabulary.hpp DraftVocabulary"}, [](Arguments& a) {
    const std::vector<index_t> ids{a.index("id 0", 1, 5), 3};
    DraftVocabulary(ids, 5);
  });
  refuses({"io/draft_vocabulary.hpp require_sizes"},
          [&](Arguments& a) { vocabulary.require_sizes(a.extent("sizes", 2), a.extent("sizes", 5)); });
  refuses({"io/draft_vocabulary.hpp count_tokens"}, [](Arguments& a) {
    const std::vector<index_t> ids{a.index("token", 4, 5)};
    std::vector<std::int64_t> counts(5);
    count_tokens(std::span<const index_t>(ids), counts);
  });
  CHECK_THROWS_WITH_AS(DraftVocabulary(std::vector<index_t>{3, 3}, 5),
                       "draft vocabulary: id 1: found token 3 again, wanted each token once", Error);
}

TEST_CASE("EAGLE-3: auxiliary states") {
  using Draft = Eagle3Draft<refusals::Eagle3>;
  using Aux = AuxProjection<refusals::Eagle3>;
  auto& model = both<Draft>();
  refuses({"drafts/aux_projection.hpp forward"}, [&](Arguments& a) {
    Aux::forward<float>(device, model.w(), a.rows<const float, Aux::width>("aux", 3, Blame::any),
                        a.rows<float, Aux::width>("normed", 3), a.rows<float, Aux::hidden>("h", 3));
  });
  refuses({"drafts/aux_projection.hpp backward"}, [&](Arguments& a) {
    Aux::backward<float>(Workspace(device, a.scratch()), model.w(), model.d_w(),
                         a.rows<const float, Aux::width>("aux", 3, Blame::any), a.rows<float, Aux::width>("normed", 3),
                         a.rows<float, Aux::hidden>("d_h", 3), a.matrix<float>("d_aux", 3, Aux::width));
  });
}

TEST_CASE("EAGLE-3") {
  using Draft = Eagle3Draft<refusals::Eagle3>;
  auto& model = both<Draft>();
  const auto activations = [](Arguments& a) {
    return a.planned("activations", rows,
                     [](auto& arena, index_t n) { return Draft::Activations<float>::allocate(arena, n, 2); });
  };
  const auto step = [](Arguments& a) {
    return a.planned(
        "step", rows,
        [](auto& arena, index_t n) {
          auto s = Draft::Step<float>::allocate(arena, n);
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(arena)>, Arena>) std::fill_n(s.ids.data(), n, 0);
          return s;
        },
        Blame::any);
  };
  const auto aux = [](Arguments& a) { return a.rows<const float, Draft::aux_width>("aux", rows, Blame::any); };
  refuses({"drafts/shift_ids_left.hpp shift_ids_left"}, [](Arguments& a) {
    shift_ids_left(Cpu{}, Vector<const index_t>(a.memory<index_t>(6), 6), 3, 1, a.vector<index_t>("out", 6));
  });
  refuses({"drafts/eagle3_draft.hpp project_hidden_states"}, [&](Arguments& a) {
    const auto acts =
        a.planned("h", rows, [](auto& arena, index_t n) { return Draft::Activations<float>::allocate(arena, n, 1); });
    Draft::project_hidden_states<float>(device, model.w(), a.rows<const float, Draft::aux_width>("h", rows), acts);
  });
  refuses({"drafts/eagle3_draft.hpp forward"}, [&](Arguments& a) {
    const auto ids = a.tokens("ids", {0, 1, 2, 3, 4, 22}, 23, Blame::any);
    Draft::forward<float>(device, model.w(),
                          typename Draft::template Inputs<float, CausalVisibility>{
                              ids, a.index("length", length, 4), aux(a), CausalVisibility{}, RotaryPositions{}},
                          activations(a));
  });
  refuses({"drafts/eagle3_draft.hpp step_forward", "drafts/eagle3_draft.hpp before_attention"}, [&](Arguments& a) {
    const auto s = step(a);
    AttentionSteps<const float> keys;
    keys.add(s.keys());
    Draft::step_forward<float>(
        device, model.w(), s, a.rows<const float, Draft::hidden>("hidden_in", rows, Blame::any),
        typename Draft::template SeenKeys<float, CausalVisibility>{{2, length, length}, keys, {}}, RotaryPositions{});
  });
  refuses({"drafts/eagle3_draft.hpp after_attention"}, [&](Arguments& a) {
    const auto s =
        a.planned("hidden_in", rows, [](auto& arena, index_t n) { return Draft::Step<float>::allocate(arena, n); });
    Draft::after_attention<float>(device, model.w(), s, a.rows<const float, Draft::hidden>("hidden_in", rows));
  });
  refuses({"drafts/eagle3_head.hpp head_input"}, [&](Arguments& a) {
    Draft::head_input(device, model.w(), a.matrix<const float>("out", 3, Draft::hidden, Blame::any),
                      a.matrix<float>("y", 3, Draft::hidden));
  });
  refuses({"drafts/eagle3_head.hpp compute_logits"}, [&](Arguments& a) {
    Draft::compute_logits(device, model.w(), a.matrix<const float>("x", 3, Draft::hidden, Blame::any),
                          a.matrix<float>("logits", 3, Draft::draft_vocabulary));
  });
  refuses({"drafts/eagle3_head.hpp head_backward"}, [&](Arguments& a) {
    Draft::head_backward<float>(
        Workspace(device, a.scratch()), model.w(), model.d_w(),
        a.matrix<const float>("out", 3, Draft::hidden, Blame::any), a.matrix<const float>("x", 3, Draft::hidden),
        a.matrix<const float>("d_logits", 3, Draft::draft_vocabulary), a.matrix<float>("d_out", 3, Draft::hidden));
  });
  refuses({"drafts/eagle3_draft.hpp backward"}, [&](Arguments& a) {
    const std::vector<index_t> ids(rows);
    const auto acts = a.planned_right([](auto& arena) { return Draft::Activations<float>::allocate(arena, rows, 2); });
    Draft::forward<float>(device, model.w(),
                          typename Draft::template Inputs<float, CausalVisibility>{
                              Vector<const index_t>(ids.data(), rows), length,
                              Rows<const float, Draft::aux_width>(a.memory<float>(rows * Draft::aux_width), rows),
                              CausalVisibility{}, RotaryPositions{}},
                          acts);
    std::vector<Rows<float, Draft::hidden>> d_outs;
    for (index_t k = a.extent("d_outs", 2); k > 0; --k) d_outs.push_back(a.rows<float, Draft::hidden>("d_outs", rows));
    Draft::backward<float>(Workspace(device, a.scratch()), model.w(), model.d_w(),
                           typename Draft::template Inputs<float, CausalVisibility>{
                               {}, a.index("length", length, 4), aux(a), CausalVisibility{}, RotaryPositions{}},
                           acts, d_outs, a.matrix<float>("d_aux", rows, Draft::aux_width));
  });
  refuses({"drafts/eagle3_activations.hpp step"}, [](Arguments& a) {
    const auto acts = a.planned_right([](auto& arena) { return Draft::Activations<float>::allocate(arena, rows, 2); });
    (void)acts.step(a.index("step", 1, 2));
  });
}

TEST_CASE("a block draft's layer") {
  using Layer = BlockLayer<refusals::Dflash>;
  auto& model = both<Layer>();
  constexpr index_t hidden = Layer::hidden;
  const auto saved = [](Arguments& a, const char* name) {
    return a.planned(name, rows, [](auto& arena, index_t n) { return Layer::Saved<float>::allocate(arena, n); });
  };
  const auto keys = [](Arguments& a, const char* name) {
    return a.planned(name, 5, [](auto& arena, index_t n) { return Layer::Keys<float>::allocate(arena, n); });
  };
  refuses({"drafts/block_layer.hpp before_attention"}, [&](Arguments& a) {
    Layer::before_attention<float>(device, model.w(), a.matrix<const float>("x", rows, hidden), saved(a, "x"));
  });
  refuses({"drafts/block_layer.hpp attend"}, [&](Arguments& a) {
    const auto k = keys(a, "context");
    Layer::attend<float>(device, model.w(), span, Layer::attention_keys<float>(k), visible(), saved(a, "q"));
  });
  refuses({"drafts/block_layer.hpp after_attention"}, [&](Arguments& a) {
    Layer::after_attention<float>(device, model.w(), a.matrix<const float>("x", rows, hidden), saved(a, "x"));
  });
  refuses({"drafts/block_layer.hpp backward"}, [&](Arguments& a) {
    Layer::backward<float>(
        Workspace(device, a.scratch()), model.w(), model.d_w(),
        typename Layer::template Pattern<BlockVisibility>{span, visible()},
        {a.matrix<const float>("context", 5, hidden), keys(a, "context_keys")},
        {a.matrix<const float>("x", rows, hidden), saved(a, "s")},
        {a.matrix<float>("d_x", rows, hidden), {a.matrix<float>("d_context", 5, hidden), Into::overwrite}});
  });
}

TEST_CASE("a block draft's backbone") {
  using Layer = BlockBackbone<refusals::Dflash>;
  auto& model = both<Layer>();
  constexpr index_t hidden = Layer::hidden, width = Layer::target_width;
  const auto activations = [](Arguments& a) {
    const index_t context = a.extent("activations", 5), noise = a.extent("activations", rows);
    return a.planned_right([&](auto& arena) { return Layer::Activations<float>::allocate(arena, context, noise); });
  };
  refuses({"drafts/block_backbone.hpp forward"}, [&](Arguments& a) {
    Layer::forward<float>(device, model.w(),
                          typename Layer::template Inputs<float, BlockVisibility>{
                              a.rows<const float, width>("target_hidden", 5),
                              a.rows<const float, hidden>("noise", rows), span, visible()},
                          activations(a));
  });
  refuses({"drafts/block_backbone.hpp project_context"}, [&](Arguments& a) {
    Layer::project_context<float>(device, model.w(), a.rows<const float, width>("target_hidden", 5, Blame::any),
                                  a.rows<float, hidden>("fc", 5), a.rows<float, hidden>("context", 5));
  });
  refuses({"drafts/block_backbone.hpp forward_noise"}, [&](Arguments& a) {
    const auto acts = a.planned(
        "noise", rows, [](auto& arena, index_t n) { return Layer::Activations<float>::allocate(arena, 5, n); });
    Layer::forward_noise<float>(device, model.w(), a.rows<const float, hidden>("noise", rows), acts,
                                [](index_t, const auto&) {});
  });
  refuses({"drafts/block_backbone.hpp backward"}, [&](Arguments& a) {
    Layer::backward<float>(Workspace(device, a.scratch()), model.w(), model.d_w(),
                           typename Layer::template Inputs<float, BlockVisibility>{
                               a.rows<const float, width>("target_hidden", 5),
                               a.rows<const float, hidden>("noise", rows), span, visible()},
                           activations(a), a.rows<const float, hidden>("d_out", rows),
                           {a.matrix<float>("d_noise", rows, hidden), a.matrix<float>("d_target_hidden", 5, width)});
  });
}

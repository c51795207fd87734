/// \file
/// A training step of a draft on features of a target that are given: gradients, their norm and AdamW's update, one for
/// each line of input (worker.hpp). Weights and inputs are hash_fill.hpp's.
/// ```text
/// bench_draft_step CASE THREADS [SEQUENCES LENGTH]
/// ```

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include <k3spec/batches/anchors.hpp>
#include <k3spec/objectives/dflash_objective.hpp>
#include <k3spec/objectives/dspark_objective.hpp>
#include <k3spec/objectives/ttt_objective.hpp>
#include <k3spec/optimiser/adamw.hpp>

#include "draft_configs.hpp"
#include "hash_fill.hpp"

namespace {

using namespace k3spec;
using bench::Json;

constexpr index_t ttt_steps = 5;
constexpr double gamma_of_slots = 4, learning_rate = 1e-3;

struct Call {
  std::string name;
  Cpu cpu;
  index_t sequences, length;

  index_t rows() const { return sequences * length; }
  Json about() const {
    Json json;
    json.add("case", name).add("threads", cpu.threads).add("sequences", sequences).add("length", length);
    return json;
  }
};

/// updates: the optimizer; gradients_alone: where its moments are more than the memory holds.
enum class Ends { updates, gradients_alone };

/// Serves steps of a draft. \param forward_backward  (weights, gradients) -> loss
template <class Draft, Ends ends, class F>
void serve(const Call& call, Json about, F&& forward_backward) {
  Parameters<Draft, float> parameters;
  bench::fill_parameters(parameters);
  Gradients<Draft, float> gradients;
  about.add("parameters", parameter_count<Draft>).add("trained", trainable_count<Draft>);
  about.add("updates", ends == Ends::updates);
  const auto run = [&](auto&& update) {
    bench::serve(about, [&](Json& answer) {
      gradients.zero();
      answer.add("loss", forward_backward(parameters.weights(), gradients.weights()));
      answer.add("grad_norm", update());
    });
  };
  if constexpr (ends == Ends::updates) {
    AdamW<Draft, float> optimizer(AdamWOptions{}, parameters);
    run([&] { return optimizer.step(call.cpu, learning_rate, parameters, gradients).grad_norm; });
  } else {
    GradientNorm<> norm(call.cpu, trainable_slots<Draft>);
    run([&] { return norm(call.cpu, gradients.flat()); });
  }
}

Buffer<float> values(const char* name, index_t rows, index_t columns, double width = 1) {
  Buffer<float> to(rows * columns);
  bench::fill(name, {0, width}, to.data(), to.size());
  return to;
}
Buffer<index_t> ids(const char* name, index_t below, index_t count) {
  Buffer<index_t> to(count);
  bench::fill_ids(name, below, to.data(), count);
  return to;
}
template <class T>
Vector<const T> view(const Buffer<T>& b) {
  return Vector<const T>(b.data(), b.size());
}
Matrix<const float> matrix(const Buffer<float>& b, index_t columns) {
  return Matrix<const float>(b.data(), b.size() / columns, columns);
}
/// A head as wide as a draft's own.
Buffer<float> head(const char* name, index_t vocabulary, index_t hidden) {
  return values(name, vocabulary, hidden, std::sqrt(3.0 / static_cast<double>(hidden)));
}

/// The draft can say the first tokens; of nine that the target chooses, it can say about eight.
template <class Config, Ends ends = Ends::updates>
void eagle3(const Call& call) {
  using Draft = Eagle3Draft<Config>;
  const index_t rows = call.rows(), vocabulary = Draft::draft_vocabulary;
  const auto aux = values("input.aux", rows, Draft::aux_width);
  const auto last = values("input.last_hidden", rows, Draft::hidden);
  const auto selected = head("input.selected_head", vocabulary, Draft::hidden);
  const auto tokens = ids("input.ids", Draft::vocabulary, rows);
  const auto top = ids("input.teacher_top", vocabulary + vocabulary / 8, rows);
  Buffer<std::uint8_t> ones(rows), supervised(rows), t2d(Draft::vocabulary);
  ones.fill(1), supervised.fill(1);
  std::fill_n(t2d.data(), vocabulary, std::uint8_t{1});
  for (index_t r = call.length - 1; r < rows; r += call.length) supervised[r] = 0;  // no token comes after it

  const TttBatch<float, Draft::aux_width> batch{.length = call.length,
                                                .input_ids = view(tokens),
                                                .attention_mask = view(ones),
                                                .loss_mask = view(supervised),
                                                .aux = Rows<const float, Draft::aux_width>(aux.data(), rows),
                                                .teacher_top = view(top),
                                                .t2d = view(t2d)};
  const HiddenTeacher<float> teacher{matrix(last, Draft::hidden), matrix(selected, Draft::hidden)};
  TttObjective<Draft, float> objective(rows, ttt_steps);
  Json about = call.about();
  bench::add_config<Config>(about.add("kind", "eagle3").add("ttt_steps", ttt_steps));
  serve<Draft, ends>(call, about, [&](const auto& w, const auto& d_w) {
    return objective.forward_backward(call.cpu, w, d_w, batch, teacher).loss();
  });
}

/// What drafts of blocks read: an anchor in each of so many equal parts of a sequence.
template <class Draft>
struct Blocks {
  index_t length, blocks;
  Buffer<float> hidden, last;
  Buffer<index_t> tokens, anchors;
  Buffer<std::uint8_t> ones, keep;

  explicit Blocks(const Call& call, Slot slot)
      : length(call.length),
        blocks(call.length / 8),
        hidden(values("input.target_hidden", call.rows(), Draft::target_width)),
        last(values("input.last_hidden", call.rows(), Draft::hidden)),
        tokens(ids("input.ids", Draft::vocabulary, call.rows())),
        anchors(call.sequences * blocks),
        ones(call.rows()),
        keep(call.sequences * blocks) {
    ones.fill(1), keep.fill(1);
    const index_t positions = anchor_positions(slot, {call.sequences, length, blocks, Draft::block_size});
    for (index_t i = 0; i < anchors.size(); ++i) anchors[i] = i % blocks * positions / blocks;
  }
  BlockBatch<float, Draft::target_width> batch() const {
    return {.length = length,
            .input_ids = view(tokens),
            .loss_mask = view(ones),
            .target_hidden = Rows<const float, Draft::target_width>(hidden.data(), tokens.size()),
            .anchors = view(anchors),
            .keep = view(keep)};
  }
};

template <class Config>
void dflash(const Call& call) {
  using Draft = DFlashDraft<Config>;
  const Blocks<Draft> of(call, Slot::anchor_plus_k);
  const auto embedding = head("input.embed_tokens", Draft::vocabulary, Draft::hidden);
  const auto lm_head = head("input.lm_head", Draft::vocabulary, Draft::hidden);
  const DFlashTarget<float> target{matrix(embedding, Draft::hidden), matrix(lm_head, Draft::hidden)};
  DFlashObjective<Draft, float> objective(call.sequences, call.length, of.blocks, gamma_of_slots);
  Json about = call.about();
  bench::add_config<Config>(about.add("kind", "dflash").add("anchors", of.blocks).add("gamma", gamma_of_slots));
  serve<Draft, Ends::updates>(call, about, [&](const auto& w, const auto& d_w) {
    return objective.forward_backward(call.cpu, w, d_w, target, of.batch()).mean_loss();
  });
}

template <class Config>
void dspark(const Call& call) {
  using Draft = DSparkDraft<Config>;
  using Objective = DSparkObjective<Draft, float>;
  const Blocks<Draft> of(call, Slot::anchor_plus_k_plus_1);
  const typename Objective::Batch batch{of.batch(), Rows<const float, Draft::hidden>(of.last.data(), call.rows())};
  Objective objective(call.sequences, call.length, of.blocks, {.gamma = gamma_of_slots});
  Json about = call.about();
  bench::add_config<Config>(about.add("kind", "dspark").add("anchors", of.blocks).add("gamma", gamma_of_slots));
  serve<Draft, Ends::updates>(call, about, [&](const auto& w, const auto& d_w) {
    return objective.forward_backward(call.cpu, w, d_w, batch).mean_loss();
  });
}

struct Case {
  void (*run)(const Call&);
  index_t sequences, length;
};
template <index_t V>
constexpr Case vocabulary{eagle3<bench::Eagle3Vocabulary<V>>, 1, 256};

const std::map<std::string, Case> cases = {
    {"eagle3-128", {eagle3<configs::KimiK3Tiny>, 8, 192}},
    {"eagle3-512", {eagle3<bench::Eagle3Small>, 2, 512}},
    {"eagle3-512-wide", {eagle3<bench::Eagle3Wide>, 2, 512}},
    {"eagle3-k3", {eagle3<bench::Eagle3K3, Ends::gradients_alone>, 1, 256}},
    {"dflash-128", {dflash<configs::KimiK3TinyDFlash>, 8, 192}},
    {"dflash-512", {dflash<bench::DFlashSmall>, 2, 512}},
    {"dspark-128", {dspark<configs::KimiK3TinyDSpark>, 8, 192}},
    {"dspark-512", {dspark<bench::DSparkSmall>, 2, 512}},
    {"eagle3-v4096", vocabulary<4096>},
    {"eagle3-v16384", vocabulary<16384>},
    {"eagle3-v65536", vocabulary<65536>},
    {"eagle3-v163840", vocabulary<163840>},
};

}  // namespace

int main(int argc, char** argv) {
  const auto at = cases.find(argc > 1 ? argv[1] : "");
  if (at == cases.end() || argc < 3) {
    std::fprintf(stderr, "usage: bench_draft_step CASE THREADS [SEQUENCES LENGTH]\ncases:");
    for (const auto& [name, unused] : cases) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  Call call{at->first, {std::atoi(argv[2])}, at->second.sequences, at->second.length};
  if (argc > 4) call.sequences = std::atoi(argv[3]), call.length = std::atoi(argv[4]);
  at->second.run(call);
}

// One contract for the gradients of inputs, over all ops and layers that have one: `nothing` leaves memory untouched
// and needs no view, `overwrite` does not read what was there, `accumulate` adds to it; all else comes out the same.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <tests/refusals/models.hpp>
#include <k3spec/core/rng.hpp>
#include <k3spec/drafts/block_backbone.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/layers/confidence_head.hpp>
#include <k3spec/layers/markov_head.hpp>

using namespace k3spec;

namespace {

const Cpu device{1};
using Numbers = std::vector<double>;

/// The same draws for every call that asks in the same order.
class Draws {
 public:
  Matrix<double> draws(index_t rows, index_t columns) {
    const Philox philox(5, next_++);
    Numbers& x = make(rows * columns);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = philox.normal(i);
    return Matrix<double>(x.data(), rows, columns);
  }
  template <index_t C>
  Rows<double, C> rows(index_t n) {
    return Rows<double, C>(draws(n, C).data(), n);
  }
  Matrix<double> nans(index_t rows, index_t columns) {
    Numbers& x = make(rows * columns);
    std::fill(x.begin(), x.end(), NAN);
    return Matrix<double>(x.data(), rows, columns);
  }
  template <class F>
  auto planned(F&& take) {
    arenas_.push_back(Arena(plan_bytes([&](ArenaPlan& a) { take(a); })));
    return take(arenas_.back());
  }
  Arena& scratch() { return arenas_.emplace_back(std::size_t{1} << 20); }

 private:
  Numbers& make(index_t count) { return numbers_.emplace_back(static_cast<std::size_t>(count)); }
  std::deque<Numbers> numbers_;
  std::deque<Arena> arenas_;
  std::uint64_t next_ = 1;
};

Numbers numbers_of(const auto& view) {
  Numbers all;
  for (index_t r = 0; r < view.extent(0); ++r) all.insert(all.end(), view.row(r), view.row(r) + view.row_size());
  return all;
}
template <class Layer>
struct Model {
  Parameters<Layer, double> parameters;
  Gradients<Layer, double> gradients;

  Model() { parameters.initialize(1, 0.3), gradients.zero(); }
  auto w() const { return parameters.weights(); }
  auto d_w() { return gradients.weights(); }
  /// Parameters' gradients, which no input's may change.
  Numbers learnt() {
    const auto all = gradients.flat();
    return {all.data(), all.data() + all.extent(0)};
  }
};

bool same(const Numbers& a, const Numbers& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

/// \param call  (draws, d_x, into) -> what else it makes: draws its operands, and puts the gradient [rows, columns] of
///              one input into d_x
template <class F>
void holds(const char* name, index_t rows, index_t columns, F&& call) {
  CAPTURE(std::string(name));
  const auto run = [&](double was, Into into, bool view, Numbers& others) {
    Numbers x(static_cast<std::size_t>(rows * columns), was);
    Draws draws;
    others = call(draws, view ? Matrix<double>(x.data(), rows, columns) : Matrix<double>(), into);
    return x;
  };
  Numbers others, again;
  const Numbers wanted = run(NAN, Into::overwrite, true, others);
  CHECK(std::all_of(wanted.begin(), wanted.end(), [](double v) { return std::isfinite(v); }));
  CHECK(same(run(7, Into::overwrite, true, again), wanted));
  CHECK(same(again, others));
  const Numbers added = run(2, Into::accumulate, true, again);
  double error = 0, largest = 2;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    error = std::max(error, std::abs(added[i] - (2 + wanted[i]))), largest = std::max(largest, std::abs(wanted[i]));
  }
  CHECK(error <= 1e-13 * largest);
  CHECK(same(again, others));
  const Numbers untouched(wanted.size(), 7);
  CHECK(same(run(7, Into::nothing, true, again), untouched));
  CHECK(same(again, others));
  run(7, Into::nothing, false, again);
  CHECK(same(again, others));
}

/// Which of several inputs' gradients is looked at: the others are not wanted, or overwritten.
constexpr Into other_ways[] = {Into::nothing, Into::overwrite};

using Heads = AttentionHeads<2, 3, 2, 4>;
constexpr index_t q_width = Heads::count * Heads::qk, kv_width = Heads::count * Heads::kv;
constexpr index_t o_width = Heads::count * Heads::v;

AttentionKeys<double> keys(Draws& m, index_t rows) { return {m.draws(rows, kv_width), m.draws(rows, Heads::rope)}; }
AttentionKeys<double> nan_keys(Draws& m, index_t rows) { return {m.nans(rows, kv_width), m.nans(rows, Heads::rope)}; }
AttentionKeys<const double> as_const(const AttentionKeys<double>& k) { return {k.kv, k.k_rope}; }
AttentionResult<double> result(Draws& m, index_t rows) {
  return {m.nans(rows, o_width), m.planned([&](auto& a) {
            Rows<LogSumExp<double>, Heads::count> lse;
            take_rows(a, rows, lse);
            return lse.matrix();
          })};
}

/// Three steps of two sequences of 40 positions: more than a tile of queries.
struct Ttt {
  static constexpr index_t rows = 80, steps = 3;
  TttProblem<Heads, double, CausalVisibility> problem;
  AttentionResult<double> made;
  Matrix<double> d_o;
  TttGradients<double> d;

  Ttt(Draws& m, Into others)
      : problem{{2, 40, 40}, m.draws(rows, q_width), {}, {nullptr, 40}, 0.5},
        made(result(m, rows)),
        d_o(m.draws(rows, o_width)),
        d{m.nans(rows, q_width), {}, others, others} {
    for (index_t s = 0; s < steps; ++s) problem.steps.add(as_const(keys(m, rows))), d.d_steps.add(nan_keys(m, rows));
  }
  void run(Draws& m) const {
    ttt_attention_forward(device, problem, made);
    ttt_attention_backward(device, problem, made, d_o, d, m.scratch());
  }
};

/// Two sequences of 70 positions with three blocks of 4.
struct Block {
  static constexpr index_t context = 140, noise = 24;
  std::vector<index_t> anchors{3, 66, 70, 0, 64, 20};
  BlockProblem<Heads, double, BlockVisibility> problem;
  AttentionResult<double> made;
  Matrix<double> d_o;
  BlockGradients<double> d;

  Block(Draws& m, Into others)
      : problem{{2, 70, 3, 4},
                m.draws(noise, q_width),
                as_const(keys(m, context)),
                as_const(keys(m, noise)),
                {anchors.data()},
                0.5},
        made(result(m, noise)),
        d_o(m.draws(noise, o_width)),
        d{m.nans(noise, q_width), nan_keys(m, context), nan_keys(m, noise), others, others, others} {}
  void run(Draws& m) const {
    block_attention_forward(device, problem, made);
    block_attention_backward(device, problem, made, d_o, d, m.scratch());
  }
};

/// The gradients that are there.
Numbers kept(const Matrix<double>& view, Into into) { return into == Into::nothing ? Numbers() : numbers_of(view); }

template <class Config>
void markov_holds() {
  using Head = MarkovHead<Config>;
  Model<Head> model;
  holds("MarkovHead: d_hidden", 6, Head::hidden, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    model.gradients.zero();
    const std::vector<index_t> previous{0, 1, 2, 3, 4, 22};
    const Vector<const index_t> ids(previous.data(), 6);
    const auto saved = m.planned([](auto& a) { return Head::template Saved<double>::allocate(a, 6); });
    Head::template forward<double>(device, model.w(), ids, m.draws(6, Head::hidden), 3, saved);
    const auto d_previous = m.draws(6, Head::rank);
    const Rows<double, Head::rank> d_latent = m.rows<Head::rank>(6);
    Head::template backward<double>(Workspace(device, m.scratch()), model.w(), model.d_w(), {ids, 3}, saved,
                                    {d_latent, d_previous, {d_x, into}});
    return model.learnt();
  });
}

template <class Config>
void aux_holds() {
  using Draft = Eagle3Draft<Config>;
  using Aux = AuxProjection<Config>;
  Model<Draft> model;
  holds("AuxProjection: d_aux", 5, Aux::width, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    model.gradients.zero();
    const auto aux = m.rows<Aux::width>(5), normed = m.rows<Aux::width>(5);
    const auto h = m.rows<Aux::hidden>(5);
    Aux::template forward<double>(device, model.w(), aux, normed, h);
    Aux::template backward<double>(Workspace(device, m.scratch()), model.w(), model.d_w(), aux, normed,
                                   m.rows<Aux::hidden>(5), {d_x, into});
    return model.learnt();
  });
}

template <class Config>
void eagle3_holds() {
  using Draft = Eagle3Draft<Config>;
  Model<Draft> model;
  const std::vector<index_t> tokens{0, 1, 2, 3, 4, 22};
  const Vector<const index_t> ids(tokens.data(), 6);
  holds("Eagle3Draft: d_aux", 6, Draft::aux_width, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    model.gradients.zero();
    const auto acts = m.planned([](auto& a) { return Draft::template Activations<double>::allocate(a, 6, 2); });
    const auto aux = m.rows<Draft::aux_width>(6);
    const CausalVisibility visible{nullptr, 3};
    Draft::template forward<double>(
        device, model.w(),
        typename Draft::template Inputs<double, CausalVisibility>{ids, 3, aux, visible, {nullptr, 3}}, acts);
    const std::vector d_outs{m.rows<Draft::hidden>(6), m.rows<Draft::hidden>(6)};
    Draft::template backward<double>(
        Workspace(device, m.scratch()), model.w(), model.d_w(),
        typename Draft::template Inputs<double, CausalVisibility>{{}, 3, aux, visible, {nullptr, 3}}, acts, d_outs,
        {d_x, into});
    return model.learnt();
  });
  holds("Eagle3Draft: d_out", 4, Draft::hidden, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    model.gradients.zero();
    const auto out = m.rows<Draft::hidden>(4), x = m.rows<Draft::hidden>(4);
    Draft::head_input(device, model.w(), out, x);
    Draft::template head_backward<double>(Workspace(device, m.scratch()), model.w(), model.d_w(), out, x,
                                          m.draws(4, Draft::draft_vocabulary), {d_x, into});
    return model.learnt();
  });
}

struct Vanilla : refusals::Dspark {
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::vanilla;
};
struct Gated : refusals::Dspark {
  static constexpr MarkovHeadType markov_head_type = MarkovHeadType::gated;
};
struct NewNorms : refusals::Eagle3 {
  static constexpr bool fc_norm = false, norm_output = true;
};

}  // namespace

TEST_CASE("gradients of inputs: norms and products") {
  holds("rms_norm: d_x", 3, 5, [](Draws& m, const Matrix<double>& d_x, Into into) {
    Numbers d_w(5);
    const auto w = m.draws(1, 5);
    rms_norm_backward<double>(Workspace(device, m.scratch()), Vector<const double>(w.data(), 5),
                              Vector<double>(d_w.data(), 5), 1e-5, m.draws(3, 5), m.draws(3, 5), {d_x, into});
    return d_w;
  });
  Model<KimiRMSNorm<5>> norm;
  holds("KimiRMSNorm: d_x", 3, 5, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    norm.gradients.zero();
    KimiRMSNorm<5>::backward(Workspace(device, m.scratch()), norm.w(), norm.d_w(), 1e-5, m.draws(3, 5), m.draws(3, 5),
                             {d_x, into});
    return norm.learnt();
  });
  Model<Linear<5, 4>> linear;
  holds("Linear: d_x", 3, 5, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    linear.gradients.zero();
    Linear<5, 4>::backward(device, linear.w(), linear.d_w(), m.draws(3, 5), m.draws(3, 4), {d_x, into});
    return linear.learnt();
  });
  holds("Linear: backward_input", 3, 5, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    Linear<5, 4>::backward_input(device, linear.w(), m.draws(3, 4), {d_x, into});
    return Numbers();
  });
  Model<BiasedLinear<5, 4>> biased;
  holds("BiasedLinear: backward_input", 3, 5, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    BiasedLinear<5, 4>::backward_input(device, biased.w(), m.draws(3, 4), {d_x, into});
    return Numbers();
  });
  holds("copy", 3, 5, [](Draws& m, const Matrix<double>& y, Into into) {
    copy(device, m.draws(3, 5), y, into);
    return Numbers();
  });
  holds("gemm", 3, 5, [](Draws& m, const Matrix<double>& c, Into into) {
    gemm(device, m.draws(3, 4), Op::plain, m.draws(4, 5), Op::plain, c, into);
    return Numbers();
  });
}

TEST_CASE("gradients of inputs: gated MLPs") {
  using MLP = SwiGLUMLP<5, 4>;
  Model<MLP> model;
  holds("GatedMLP: d_x", 3, 5, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    model.gradients.zero();
    const auto saved = m.planned([](auto& a) { return MLP::Saved<double>::allocate(a, 3); });
    const auto x = m.draws(3, 5), y = m.draws(3, 5);
    MLP::forward<double>(device, model.w(), x, y, saved);
    MLP::backward<double>(Workspace(device, m.scratch()), model.w(), model.d_w(), x, saved, m.draws(3, 5), {d_x, into});
    return model.learnt();
  });
}

TEST_CASE("gradients of inputs: attention of test-time-training steps") {
  for (const Into others : other_ways) {
    holds("d_q", Ttt::rows, q_width, [&](Draws& m, const Matrix<double>& d_x, Into into) {
      Ttt t(m, others);
      t.d.d_q = d_x, t.d.into_q = into;
      t.run(m);
      return kept(t.d.d_steps[0].kv, others);
    });
    for (index_t s = 0; s < Ttt::steps; ++s) {
      const auto run = [&](Draws& m, Into into, auto&& put) {
        Ttt t(m, others);
        if (into == Into::accumulate) {
          for (const auto& k : t.d.d_steps.keys) {
            if (k.kv.data() == nullptr) continue;
            std::fill_n(k.kv.data(), k.kv.size(), 0.0), std::fill_n(k.k_rope.data(), k.k_rope.size(), 0.0);
          }
        }
        put(t.d.d_steps.keys[static_cast<std::size_t>(s)]), t.d.into_steps = into;
        t.run(m);
        return kept(t.d.d_q, others);
      };
      holds("d_kv", Ttt::rows, kv_width,
            [&](Draws& m, const Matrix<double>& d_x, Into into) { return run(m, into, [&](auto& k) { k.kv = d_x; }); });
      holds("d_k_rope", Ttt::rows, Heads::rope, [&](Draws& m, const Matrix<double>& d_x, Into into) {
        return run(m, into, [&](auto& k) { k.k_rope = d_x; });
      });
    }
  }
}

TEST_CASE("gradients of inputs: attention of blocks") {
  for (const Into others : other_ways) {
    holds("d_q", Block::noise, q_width, [&](Draws& m, const Matrix<double>& d_x, Into into) {
      Block b(m, others);
      b.d.d_q = d_x, b.d.into_q = into;
      b.run(m);
      return kept(b.d.d_context.kv, others);
    });
    const auto keys_hold = [&](AttentionKeys<double> BlockGradients<double>::*keys_of,
                               Into BlockGradients<double>::*way, index_t rows) {
      const auto run = [&](Draws& m, Into into, auto&& put) {
        Block b(m, others);
        const auto& k = b.d.*keys_of;
        std::fill_n(k.kv.data(), k.kv.size(), 0.0), std::fill_n(k.k_rope.data(), k.k_rope.size(), 0.0);
        put(b.d.*keys_of), b.d.*way = into;
        b.run(m);
        return kept(b.d.d_q, others);
      };
      holds("d_kv", rows, kv_width,
            [&](Draws& m, const Matrix<double>& d_x, Into into) { return run(m, into, [&](auto& k) { k.kv = d_x; }); });
      holds("d_k_rope", rows, Heads::rope, [&](Draws& m, const Matrix<double>& d_x, Into into) {
        return run(m, into, [&](auto& k) { k.k_rope = d_x; });
      });
    };
    keys_hold(&BlockGradients<double>::d_context, &BlockGradients<double>::into_context, Block::context);
    keys_hold(&BlockGradients<double>::d_noise, &BlockGradients<double>::into_noise, Block::noise);
  }
}

TEST_CASE("gradients of inputs: latent attention's projections") {
  const auto hold = []<class Layer>(Layer) {
    Model<Layer> model;
    const auto run = [&](Draws& m, auto&& back) {
      model.gradients.zero();
      const auto saved = m.planned([](auto& a) { return Layer::template Saved<double>::allocate(a, 3); });
      const auto g = m.planned([](auto& a) { return Layer::template Gradient<double>::allocate(a, 3); });
      const auto x = m.draws(3, Layer::input);
      Layer::template project<double>(device, model.w(), x, saved);
      copy(device, m.draws(3, Layer::heads * Layer::qk_dim), g.d_q, Into::overwrite);
      if constexpr (Layer::has_gate) copy(device, m.draws(3, g.d_gate.extent(1)), g.d_gate, Into::overwrite);
      back(x, saved, g, m.draws(3, Layer::heads * (Layer::nope + Layer::v_dim)), m.draws(3, Layer::rope));
      return model.learnt();
    };
    holds("MLA: d_x", 3, Layer::input, [&](Draws& m, const Matrix<double>& d_x, Into into) {
      return run(m, [&](const auto& x, const auto& s, const auto& g, const auto& d_kv, const auto& d_k_rope) {
        Layer::template project_backward<double>(Workspace(device, m.scratch()), model.w(), model.d_w(), x, s,
                                                 g.with_keys({d_kv, d_k_rope}), {d_x, into});
      });
    });
    holds("MLA: d_x of keys", 3, Layer::input, [&](Draws& m, const Matrix<double>& d_x, Into into) {
      return run(m, [&](const auto& x, const auto& s, const auto&, const auto& d_kv, const auto& d_k_rope) {
        Layer::template keys_backward<double>(Workspace(device, m.scratch()), model.w(), model.d_w(), x, s,
                                              {d_kv, d_k_rope}, {d_x, into});
      });
    });
  };
  hold(MLA<refusals::Dflash>());
  hold(MLA<refusals::DeepSeek>());
}

TEST_CASE("gradients of inputs: DSpark's heads") {
  markov_holds<Vanilla>();
  markov_holds<Gated>();
  markov_holds<refusals::Dspark>();
  using Markov = MarkovHead<refusals::Dspark>;
  Model<Markov> markov;
  holds("MarkovHead: d_latent", 3, Markov::rank, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    markov.gradients.zero();
    const auto latent = m.draws(3, Markov::rank), d_logits = m.draws(3, Markov::vocabulary);
    Markov::add_logits_backward<double>(device, markov.w(), markov.d_w(), latent, d_logits, {d_x, into});
    return markov.learnt();
  });
  using Confidence = ConfidenceHead<refusals::Dspark>;
  Model<Confidence> confidence;
  const auto run = [&](Draws& m, const Confidence::InputGradients<double>& d) {
    confidence.gradients.zero();
    const auto saved = m.planned([](auto& a) { return Confidence::Saved<double>::allocate(a, 3); });
    const auto hidden = m.draws(3, Confidence::hidden);
    Confidence::forward<double>(device, confidence.w(), hidden, m.draws(3, Confidence::rank), m.draws(3, 1), saved);
    Confidence::backward<double>(Workspace(device, m.scratch()), confidence.w(), confidence.d_w(), hidden, saved,
                                 m.draws(3, 1), d);
    return confidence.learnt();
  };
  for (const Into others : other_ways) {
    holds("ConfidenceHead: d_hidden", 3, Confidence::hidden, [&](Draws& m, const Matrix<double>& d_x, Into into) {
      return run(m, {{d_x, into}, {m.nans(3, Confidence::rank), others}});
    });
    holds("ConfidenceHead: d_previous", 3, Confidence::rank, [&](Draws& m, const Matrix<double>& d_x, Into into) {
      return run(m, {{m.nans(3, Confidence::hidden), others}, {d_x, into}});
    });
  }
}

TEST_CASE("gradients of inputs: block drafts") {
  using Backbone = BlockBackbone<refusals::Dflash>;
  constexpr index_t hidden = Backbone::hidden, width = Backbone::target_width;
  static const std::vector<index_t> anchors{2, 4};
  static const BlockSpan span{1, 5, 2, 3};
  const BlockVisibility visible{anchors.data()};
  Model<Backbone> model;
  const auto run = [&](Draws& m, const Backbone::InputGradients<double>& d) {
    model.gradients.zero();
    const auto acts = m.planned([](auto& a) { return Backbone::Activations<double>::allocate(a, 5, 6); });
    const auto target = m.rows<width>(5);
    const auto noise = m.rows<hidden>(6), d_out = m.rows<hidden>(6);
    Backbone::forward<double>(device, model.w(),
                              typename Backbone::template Inputs<double, BlockVisibility>{target, noise, span, visible},
                              acts);
    Backbone::backward<double>(
        Workspace(device, m.scratch()), model.w(), model.d_w(),
        typename Backbone::template Inputs<double, BlockVisibility>{target, noise, span, visible}, acts, d_out, d);
    return model.learnt();
  };
  for (const Into others : other_ways) {
    holds("BlockBackbone: d_noise", 6, hidden, [&](Draws& m, const Matrix<double>& d_x, Into into) {
      return run(m, {{d_x, into}, {m.nans(5, width), others}});
    });
    holds("BlockBackbone: d_target_hidden", 5, width, [&](Draws& m, const Matrix<double>& d_x, Into into) {
      return run(m, {{m.nans(6, hidden), others}, {d_x, into}});
    });
  }
  using Layer = Backbone::Layer;
  Model<Layer> one;
  holds("BlockLayer: d_context", 5, hidden, [&](Draws& m, const Matrix<double>& d_x, Into into) {
    one.gradients.zero();
    const auto saved = m.planned([](auto& a) { return Layer::Saved<double>::allocate(a, 6); });
    const auto of_context = m.planned([](auto& a) { return Layer::Keys<double>::allocate(a, 5); });
    const auto context = m.draws(5, hidden), x = m.draws(6, hidden), d = m.draws(6, hidden);
    Layer::Attention::project_keys<double>(device, one.w().self_attn, context, of_context);
    Layer::before_attention<double>(device, one.w(), x, saved);
    Layer::attend<double>(device, one.w(), span, Layer::attention_keys<double>(of_context), visible, saved);
    Layer::after_attention<double>(device, one.w(), x, saved);
    Layer::backward<double>(Workspace(device, m.scratch()), one.w(), one.d_w(),
                            typename Layer::template Pattern<BlockVisibility>{span, visible}, {context, of_context},
                            {x, saved}, {d, {d_x, into}});
    return one.learnt();
  });
}

TEST_CASE("gradients of inputs: EAGLE-3") {
  aux_holds<refusals::Eagle3>();
  aux_holds<NewNorms>();
  eagle3_holds<refusals::Eagle3>();
  eagle3_holds<NewNorms>();
}

#pragma once
/// \file
/// DSpark's Markov head: adds W₂ m to a block's logits, m [rank] a latent made from the previous token's row of W₁.
/// ```text
/// vanilla  m = W₁[prev]
/// gated    m = σ(W_g [h ‖ W₁[prev]] + b_g) ⊙ W₁[prev]
/// rnn      [g, c, o] = W_j [s ‖ W₁[prev] ‖ h] + b_j,  m = tanh(o),  s ← σ(g) ⊙ s + (1 − σ(g)) ⊙ tanh(c); s = 0 where
///          a block begins
/// ```
/// Rows are in (block, offset) order. Training gives all previous tokens at once (forward); drafting gives one step's
/// after the other (begin, then step 0, 1, …). Both do the same, row by row.
/// defines: MarkovHead

#include <optional>
#include <string>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/complete.hpp>
#include <k3spec/core/require_shape.hpp>
#include <k3spec/core/workspace.hpp>
#include <k3spec/layers/biased_linear.hpp>
#include <k3spec/ops/copy.hpp>
#include <k3spec/ops/embedding.hpp>

namespace K3SPEC_NAMESPACE {

/// R = blocks · block_size rows, H hidden.
template <ForMarkov Given>
struct MarkovHead {
  using Config = complete_markov_t<Given>;
  static_assert(Config::markov_rank > 0,
                "MarkovHead: markov_rank must be positive; a draft without one has no Markov head");
  static constexpr index_t rank = Config::markov_rank, hidden = Config::hidden_size, vocabulary = Config::vocab_size;
  static constexpr bool gated = Config::markov_head_type == MarkovHeadType::gated;
  static constexpr bool recurrent = Config::markov_head_type == MarkovHeadType::rnn;
  static constexpr bool projects = gated || recurrent;
  /// What the projection reads, and where its parts begin.
  static constexpr index_t joined_size = rank + (projects ? hidden : 0) + (recurrent ? rank : 0);
  static constexpr index_t previous_at = gated ? hidden : (recurrent ? rank : 0);
  static constexpr index_t hidden_at = recurrent ? 2 * rank : 0;
  static constexpr index_t projected = gated ? rank : (recurrent ? 3 * rank : 0);

  using Projection = std::conditional_t<projects, BiasedLinear<joined_size, projected == 0 ? 1 : projected>, Absent>;
  using Gate = std::conditional_t<gated, Projection, Absent>;
  using Joint = std::conditional_t<recurrent, Projection, Absent>;
  using Output = Linear<rank, vocabulary>;

  /// The head's tensors, named as in a checkpoint.
  template <class T>
  struct Weights {
    View<stored_t<T>, vocabulary, rank> markov_w1;
    typename Output::template Weights<T> markov_w2;
    typename Gate::template Weights<T> gate_proj;
    typename Joint::template Weights<T> joint_proj;
  };

  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "markov_w1" / "weight", w.markov_w1, Init::normal);
    Output::visit(w.markov_w2, at / "markov_w2", v);
    Gate::visit(w.gate_proj, at / "gate_proj", v);
    Joint::visit(w.joint_proj, at / "joint_proj", v);
  }

  /// What backward needs of forward.
  template <class T>
  struct Saved {
    Rows<T, joined_size> joined;  // vanilla: W₁[prev], which is the latent
    Rows<T, projected> z;
    Rows<T, rank> latent;

    template <Allocator A>
    static constexpr Saved allocate(A& a, index_t rows) {
      Saved s{};
      take_rows(a, rows, s.joined);
      if constexpr (projects) {
        take_rows(a, rows, s.z), take_rows(a, rows, s.latent);
      } else {
        s.latent = s.joined;
      }
      return s;
    }
    /// W₁[prev] [R, rank], which the confidence head reads, too.
    Rows<T, rank> previous() const { return joined.template columns<previous_at, rank>(); }
    Rows<T, rank> state() const { return joined.template columns<0, rank>(); }
    Rows<T, hidden> hidden_rows() const { return joined.template columns<hidden_at, hidden>(); }
    /// Rows k, k + block_size, …
    Saved step(index_t block_size, index_t k) const {
      return {every(joined, block_size, k), every(z, block_size, k), every(latent, block_size, k)};
    }
  };

  // Each throws Error on other numbers of rows than `saved` was allocated for, on rows that are no whole blocks, on a
  // step that a block has not, and on a token that is none.

  /// previous [R], hidden_states [R, H] -> saved.latent [R, rank]
  template <class T, Device D, class W, AnyView H>
  static void forward(const D& device, const W& w, Vector<const placed_as_t<index_t, T>> previous,
                      const H& hidden_states, index_t block_size, const Saved<T>& saved) {
    require_rows("MarkovHead: previous", previous, saved.joined.extent(0));
    begin(device, hidden_states, block_size, saved);
    embedding_forward<T>(device, previous, w.markov_w1, saved.previous());
    for (index_t k = 0; k < block_size; ++k) advance(device, w, block_size, k, saved);
  }

  /// Takes in what all steps read. hidden_states [R, H]
  template <class T, Device D, AnyView H>
  static void begin(const D& device, const H& hidden_states, index_t block_size, const Saved<T>& saved) {
    using Views = Operands<T, hidden, H>;
    static_assert(Views::wide, "MarkovHead: hidden_states has another number of columns than hidden_size");
    static_assert(Views::same, "MarkovHead: hidden_states and the weights mix double with float or bfloat16");
    if constexpr (Views::fit) {
      check_blocks(block_size, saved);
      require_shape("MarkovHead: hidden_states", hidden_states, saved.joined.extent(0), hidden);
      if constexpr (projects) copy(device, hidden_states, saved.hidden_rows());
      if constexpr (recurrent) zero(device, saved.step(block_size, 0).state());
    }
  }

  /// Step k of every block, after begin and the steps before. previous [blocks]: the token before position k ->
  /// latent [blocks, rank] = saved.step(block_size, k).latent
  template <class T, Device D, class W>
  static Rows<T, rank> step(const D& device, const W& w, Vector<const placed_as_t<index_t, T>> previous,
                            index_t block_size, index_t k, const Saved<T>& saved) {
    check_blocks(block_size, saved);
    require_index("MarkovHead: step", k, block_size);
    const auto now = saved.step(block_size, k);
    require_rows("MarkovHead: previous", previous, now.joined.extent(0));
    embedding_forward<T>(device, previous, w.markov_w1, now.previous());
    advance(device, w, block_size, k, saved);
    return now.latent;
  }

  /// logits [n, vocabulary] += latent [n, rank] W₂ᵀ
  template <Device D, class W, AnyView L, AnyView Y>
  static void add_logits(const D& device, const W& w, const L& latent, const Y& logits) {
    require_shape("MarkovHead: latent", latent, latent.extent(0), rank);
    require_shape("MarkovHead: logits", logits, latent.extent(0), vocabulary);
    Output::forward(device, w.markov_w2, latent, logits, Into::accumulate);
  }

  /// d_logits [n, vocabulary] -> d_latent [n, rank]
  template <class T, Device D, AnyView L, AnyView DY>
  static void add_logits_backward(const D& device, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                                  const L& latent, const DY& d_logits, const Destination<accumulate_t<T>>& d_latent) {
    require_shape("MarkovHead: latent", latent, latent.extent(0), rank);
    require_shape("MarkovHead: d_logits", d_logits, latent.extent(0), vocabulary);
    d_latent.check("MarkovHead: d_latent", latent.extent(0), rank);
    Output::backward(device, w.markov_w2, d_w.markov_w2, latent, d_logits, d_latent);
  }

  /// Working memory of backward.
  template <class T>
  struct Scratch {
    using S = accumulate_t<T>;
    Rows<S, joined_size> d_joined;
    Rows<S, projected> d_z;
    Rows<S, rank> d_carry;  // [blocks, rank]: the state's gradient past the projection

    template <Allocator A>
    static constexpr Scratch allocate(A& a, index_t rows, index_t block_size) {
      Scratch s{};
      if constexpr (projects) take_rows(a, rows, s.d_joined), take_rows(a, rows, s.d_z);
      if constexpr (recurrent) take_rows(a, rows / block_size, s.d_carry);
      return s;
    }
  };

  /// Bytes of scratch that backward takes.
  template <class T>
  static constexpr std::size_t scratch_bytes(index_t rows, index_t block_size) {
    return plan_bytes([&](ArenaPlan& a) { Scratch<T>::allocate(a, rows, block_size); });
  }

  /// What forward was given.
  template <class T>
  struct Blocks {
    Vector<const placed_as_t<index_t, T>> previous;  ///< [R]
    index_t size;
  };
  /// What backward is given, and where it sends it.
  template <class T>
  struct Gradients {
    using S = accumulate_t<T>;
    Matrix<const S> d_latent;  ///< [R, rank]
    /// [R, rank] what others sent back to W₁[prev], or 0; it gathers this head's part, and all of it goes to W₁.
    Matrix<S> d_previous;
    Destination<S> d_hidden;  ///< [R, H]
  };

  /// d.d_latent -> added to parameter gradients, and the rest of d.
  template <class T, Device D, Allocator A>
  static void backward(const Workspace<D, A>& on, const Weights<const T>& w, const Weights<accumulate_t<T>>& d_w,
                       const Blocks<std::type_identity_t<T>>& blocks, const Saved<T>& saved,
                       const Gradients<std::type_identity_t<T>>& d) {
    using S = accumulate_t<T>;
    const auto& [previous, block_size] = blocks;
    const index_t rows = saved.joined.extent(0);
    check_blocks(block_size, saved);
    require_rows("MarkovHead: previous", previous, rows);
    require_shape("MarkovHead: d_latent", d.d_latent, rows, rank);
    require_shape("MarkovHead: d_previous", d.d_previous, rows, rank);
    d.d_hidden.check("MarkovHead: d_hidden", rows, hidden);
    Scope scope(on.scratch);
    const auto g = Scratch<T>::allocate(on.scratch, rows, block_size);
    if constexpr (!projects) {
      add(on.device, d.d_latent, d.d_previous);
      if (d.d_hidden.into == Into::overwrite) zero(on.device, d.d_hidden.to);
    } else {
      if constexpr (gated) {
        differentiate(on.device, gate_formula(), d.d_latent, gradients(overwrite(g.d_z), accumulate(d.d_previous)),
                      on.scratch, saved.z, saved.previous());
        Projection::backward_input(on.device, w.gate_proj, g.d_z, g.d_joined);
        Projection::backward_weight(on, d_w.gate_proj, saved.joined, g.d_z);
      } else {
        for (index_t k = block_size - 1; k >= 0; --k) step_back(on, w, block_size, k, saved, d.d_latent, g);
        Projection::backward_weight(on, d_w.joint_proj, saved.joined, g.d_z);
      }
      add(on.device, g.d_joined.template columns<previous_at, rank>(), d.d_previous);
      copy(on.device, g.d_joined.template columns<hidden_at, hidden>(), d.d_hidden.to, d.d_hidden.into);
    }
    embedding_backward<S>(on.device, previous, std::nullopt, d.d_previous, d_w.markov_w1);
  }

 private:
  template <class T>
  static void check_blocks(index_t block_size, const Saved<T>& saved) {
    const index_t rows = saved.joined.extent(0);
    if (block_size >= 1 && rows % block_size == 0) return;
    throw Error("MarkovHead: block_size", std::to_string(block_size), "a divisor of " + std::to_string(rows));
  }

  /// σ(z) p
  static constexpr auto gate_formula() { return sigmoid(expr::arg<0>) * expr::arg<1>; }
  /// Operands g, c, s.
  static constexpr auto state_formula() {
    constexpr auto g = sigmoid(expr::arg<0>);
    return g * expr::arg<2> + (1.0 - g) * tanh(expr::arg<1>);
  }
  static constexpr auto output_formula() { return tanh(expr::arg<0>); }

  /// Rows k, k + block_size, …
  template <class T, index_t C>
  static Rows<T, C> every(const Rows<T, C>& v, index_t block_size, index_t k) {
    const index_t blocks = v.extent(0) / block_size;
    return {blocks == 0 ? v.data() : v.row(k), Extents<dyn, C>(blocks), v.row_stride() * block_size};
  }

  /// From step k's joined rows to its latent and to the state that the next step reads.
  template <class T, Device D, class W>
  static void advance(const D& device, const W& w, index_t block_size, index_t k, const Saved<T>& saved) {
    const auto now = saved.step(block_size, k);
    if constexpr (gated) {
      Projection::forward(device, w.gate_proj, now.joined, now.z);
      evaluate(device, gate_formula(), now.latent, now.z, now.previous());
    }
    if constexpr (recurrent) {
      Projection::forward(device, w.joint_proj, now.joined, now.z);
      evaluate(device, output_formula(), now.latent, now.z.template columns<2 * rank, rank>());
      if (k + 1 == block_size) return;
      evaluate(device, state_formula(), saved.step(block_size, k + 1).state(), now.z.template columns<0, rank>(),
               now.z.template columns<rank, rank>(), now.state());
    }
  }

  /// d_z and d_joined of step k; the next step's are known.
  template <class T, Device D, Allocator A>
  static void step_back(const Workspace<D, A>& on, const Weights<const T>& w, index_t block_size, index_t k,
                        const Saved<T>& saved, const Matrix<const accumulate_t<T>>& d_latent, const Scratch<T>& g) {
    const auto now = saved.step(block_size, k);
    const auto d_z = every(g.d_z, block_size, k);
    const auto d_joined = every(g.d_joined, block_size, k);
    const auto z_g = now.z.template columns<0, rank>(), z_c = now.z.template columns<rank, rank>();
    const auto d_g = d_z.template columns<0, rank>(), d_c = d_z.template columns<rank, rank>();
    const Rows<const accumulate_t<T>, rank> d_all(d_latent.data(), Extents<dyn, rank>(d_latent.extent(0)),
                                                  d_latent.row_stride());
    differentiate(on.device, output_formula(), every(d_all, block_size, k),
                  gradients(overwrite(d_z.template columns<2 * rank, rank>())), on.scratch,
                  now.z.template columns<2 * rank, rank>());
    const bool last = k + 1 == block_size;
    if (last) {
      zero(on.device, d_z.template columns<0, 2 * rank>());
    } else {
      differentiate(on.device, state_formula(), every(g.d_joined, block_size, k + 1).template columns<0, rank>(),
                    gradients(overwrite(d_g), overwrite(d_c), overwrite(g.d_carry)), on.scratch, z_g, z_c, now.state());
    }
    Projection::backward_input(on.device, w.joint_proj, d_z, d_joined);
    if (!last) add(on.device, g.d_carry, d_joined.template columns<0, rank>());
  }
};

/// markov_rank 0: there is none.
template <ForMarkov Config>
  requires(Config::markov_rank == 0)
struct MarkovHead<Config> : Absent {
  static constexpr index_t rank = 0;
};

}  // namespace K3SPEC_NAMESPACE

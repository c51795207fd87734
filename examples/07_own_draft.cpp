// A draft of one's own, with its Method in the Trainer: a head like Medusa's. It reads the target's last state h at a
// position and says the token after the next one: logits = W_head (h + W_out tanh(W_in h)), W_head the target's,
// frozen. Its gradients are held against differences, then it learns for a few steps and is saved.
#include <k3spec/backend/cpu/differentiate.hpp>
#include <k3spec/run/trainer.hpp>
#include <k3spec/testing.hpp>

using namespace k3spec;
using TargetConfig = configs::KimiK3Tiny;

template <index_t Hidden, index_t Vocabulary>
struct MedusaHead {
  static constexpr index_t hidden = Hidden, vocabulary = Vocabulary, draft_vocabulary = Vocabulary;
  using Square = Linear<Hidden, Hidden>;

  // ---- What stands in config.json, see OwnDraft
  static constexpr const char* architecture = "MedusaHead";
  template <class V>
  static void visit_config(V&& v) {
    v("hidden_size", Hidden), v("vocab_size", Vocabulary);
  }

  template <class T>
  struct Weights {
    typename Square::template Weights<T> in, out;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Square::visit(w.in, at / "in", v);
    Square::visit(w.out, at / "out", v);
  }

  /// What is kept of forward, and as much again that backward takes.
  template <class T>
  struct Saved {
    Rows<T, Hidden> before, after;

    template <Allocator A>
    static constexpr Saved allocate(A& a, index_t rows) {
      Saved s;
      take_rows(a, rows, s.before), take_rows(a, rows, s.after);
      return s;
    }
  };

  /// h -> y = h + W_out tanh(W_in h), each [rows, Hidden]
  template <class T, Device D>
  static void forward(const D& device, const Weights<const T>& w, const Rows<const T, Hidden>& h,
                      const Rows<T, Hidden>& y, const Saved<T>& s) {
    Square::forward(device, w.in, h, s.before);
    evaluate(device, tanh(expr::arg<0>), s.after, s.before);
    evaluate(device, expr::arg<0>, y, h);
    Square::forward(device, w.out, s.after, y, Into::accumulate);
  }
  /// Parameter gradients accumulate; nothing asks for h's.
  template <class T, Device D, Allocator A>
  static void backward(const Workspace<D, A>& on, const Weights<const T>& w, const Weights<T>& d_w,
                       const Rows<const T, Hidden>& h, const Saved<T>& s, const Rows<T, Hidden>& d_y) {
    const Scope scope(on.scratch);
    const auto d = Saved<T>::allocate(on.scratch, h.extent(0));
    Square::backward(on.device, w.out, d_w.out, s.after, d_y, d.after);
    differentiate(on.device, tanh(expr::arg<0>), d.after, gradients(overwrite(d.before)), on.scratch, s.before);
    Square::backward_weight(on.device, d_w.in, h, d.before);
  }
};

/// Sums over predictions, see run/method.hpp.
struct MedusaMetrics {
  double sum = 0;
  std::int64_t count = 0, right = 0;

  MedusaMetrics& operator+=(const MedusaMetrics& other) {
    sum += other.sum, count += other.count, right += other.right;
    return *this;
  }
  template <class V>
  void visit_sums(V&& v) {
    v(sum), v(count), v(right);
  }
  double loss() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  std::int64_t supervised() const { return count; }
  double accuracy() const { return count == 0 ? 0 : static_cast<double>(right) / static_cast<double>(count); }
  double simulated_accept_length() const { return 1 + accuracy(); }
  template <class V>
  void visit(V&&) const {}
};

class MedusaMethod {
 public:
  using value_type = float;
  using device_type = Cpu;
  using Target = K3Target<TargetConfig>;
  using Teacher = TeachingTarget<TargetConfig, float>;
  using Draft = MedusaHead<TargetConfig::hidden_size, TargetConfig::vocab_size>;
  using Metrics = MedusaMetrics;
  struct Totals {
    std::int64_t count = 0;
    Totals& operator+=(const Totals& other) { return count += other.count, *this; }
    template <class V>
    void visit_sums(V&& v) {
      v(count);
    }
  };
  using Conventions = NoConventions;
  struct Setup {
    std::vector<index_t> layer_ids;  ///< none: it reads what the head reads
    Conventions conventions;
  };

  static void check(const Setup&, const TrainSettings& s) {
    require(s.length >= 3, "length", std::to_string(s.length), "at least 3: a token is told from two before it");
  }
  static DraftVocabulary vocabulary(const Setup&) { return DraftVocabulary::whole(Draft::vocabulary); }
  template <class W>
  static void initialize(const TrainSettings&, const W&, Parameters<Draft, float>&) {}
  static std::size_t bytes(const TrainSettings& s) {
    return plan_bytes([&](ArenaPlan& a) { (void)Rooms(a, s.rows()); });
  }

  MedusaMethod(const Cpu& device, Teacher target, const Setup& setup, const TrainSettings& s)
      : settings_(s),
        layers_(setup.layer_ids),
        states_(std::move(target), {}, {s.batch, s.length, s.packing}, device),
        arena_(bytes(s)),
        m_(arena_, s.rows()) {}

  /// A row in the loss mask whose token after the next one is in its window.
  bool is_supervised(const TextWindows& w, index_t row) const {
    return row % settings_.length + 2 < settings_.length && w.counts(row + 2);
  }
  template <class W>
  Totals count(const Cpu&, const W&, const TextWindows& windows, MicroBatch) {
    Totals t;
    for (index_t r = 0; r < settings_.rows(); ++r) t.count += is_supervised(windows, r) ? 1 : 0;
    return t;
  }

  using Weights = Draft::Weights<const float>;
  Metrics forward_backward(const Cpu& device, const Weights& w, const Draft::Weights<float>& d_w,
                           const TextWindows& windows, MicroBatch at, const std::optional<Totals>& totals) {
    const Metrics metrics = evaluate(device, w, windows, 0);
    const std::int64_t all = totals ? totals->count : count(device, w, windows, at).count;
    // logits -> d_logits = (softmax - 1 at the label) / all
    for (index_t r = 0; r < settings_.rows(); ++r) {
      const std::span<float> x(m_.logits.row(r), static_cast<std::size_t>(Draft::vocabulary));
      const float scale = is_supervised(windows, r) ? 1 / static_cast<float>(all) : 0;
      const double lse = log_sum_exp(x);
      for (float& p : x) p = scale * static_cast<float>(std::exp(p - lse));
      if (scale != 0) x[label(windows, r)] -= scale;
    }
    gemm<Op::plain, Op::plain>(device, m_.logits, states_.tables().lm_head, m_.y);
    Draft::backward(Workspace(device, arena_), w, d_w, states_.last(), m_.saved, m_.y);
    return metrics;
  }
  Metrics evaluate(const Cpu& device, const Weights& w, const TextWindows& windows, index_t) {
    states_.run(device, windows);
    Draft::forward(device, w, states_.last(), m_.y, m_.saved);
    states_.target().head().forward(device, m_.y, m_.logits);
    Metrics metrics;
    for (index_t r = 0; r < settings_.rows(); ++r) {
      if (!is_supervised(windows, r)) continue;
      const std::span<const float> x(m_.logits.row(r), static_cast<std::size_t>(Draft::vocabulary));
      const std::size_t wanted = label(windows, r);
      metrics.sum += log_sum_exp(x) - static_cast<double>(x[wanted]);
      metrics.right += std::max_element(x.begin(), x.end()) - x.begin() == static_cast<std::ptrdiff_t>(wanted) ? 1 : 0;
      ++metrics.count;
    }
    return metrics;
  }

  Metrics metrics() const { return {}; }
  const DraftVocabulary& vocabulary() const { return vocabulary_; }
  const std::vector<index_t>& layer_ids() const { return layers_; }
  const Conventions& conventions() const { return conventions_; }

 private:
  struct Rooms {
    Draft::Saved<float> saved;
    Rows<float, Draft::hidden> y;
    Rows<float, Draft::vocabulary> logits;

    template <Allocator A>
    Rooms(A& a, index_t rows) : saved(Draft::Saved<float>::allocate(a, rows)) {
      take_rows(a, rows, y), take_rows(a, rows, logits);
      const Scope scope(a);
      (void)Draft::Saved<float>::allocate(a, rows);  // backward's scratch
    }
  };
  static double log_sum_exp(std::span<const float> x) {
    const double most = *std::max_element(x.begin(), x.end());
    double sum = 0;
    for (const float v : x) sum += std::exp(v - most);
    return most + std::log(sum);
  }
  std::size_t label(const TextWindows& w, index_t row) const {
    return static_cast<std::size_t>(w.ids(row / settings_.length, row % settings_.length + 2));
  }

  TrainSettings settings_;
  std::vector<index_t> layers_;
  Conventions conventions_;
  DraftVocabulary vocabulary_ = DraftVocabulary::whole(Draft::vocabulary);
  TargetStates<TargetConfig, float> states_;
  Arena arena_;
  Rooms m_;
};

testing::Report check_head() {
  using Head = MedusaHead<6, 8>;
  const index_t rows = 5;
  std::vector<double> numbers(3 * rows * 6);
  const auto view = [&](index_t i) { return Rows<double, 6>(numbers.data() + i * rows * 6, rows); };
  const auto h = view(0), y = view(1), d_y = view(2);
  for (index_t i = 0; i < h.size(); ++i) h.data()[i] = Philox(7).normal(static_cast<std::uint64_t>(i));
  Parameters<Head, double> w;
  Gradients<Head, double> d_w;
  w.initialize(/*seed=*/1, /*deviation=*/0.5);
  Arena arena(1 << 16);
  const auto saved = Head::Saved<double>::allocate(arena, rows);
  testing::GradientCheck check;
  check.parameters(w, d_w).output(y, d_y);
  return check.run([&] { Head::forward<double>(Cpu{}, w.weights(), h, y, saved); },
                   [&] { Head::backward<double>(Workspace(Cpu{}, arena), w.weights(), d_w.weights(), h, saved, d_y); });
}

/// Windows that say 0 1 2 … 9 0 1 2 …, from another digit each.
TextWindows digits(std::vector<index_t>& ids, index_t batch, index_t length) {
  for (index_t i = 0; i < batch * length; ++i) ids.push_back((i % length + i / length) % 10);
  return {Matrix<const index_t>(ids.data(), batch, length)};
}

int main(int argc, char** argv) {
  const testing::Report report = check_head();
  fmt::print("{}", report.text());

  Parameters<K3Target<TargetConfig>, float> target;
  target.initialize(/*seed=*/2);
  TrainSettings settings;
  settings.batch = 2, settings.length = 24, settings.schedule.lr = 1e-2, settings.schedule.warmup_steps = 0;
  std::vector<index_t> ids;
  const TextWindows windows = digits(ids, settings.batch, settings.length);
  Trainer<MedusaMethod> trainer(Cpu{}, std::move(target), {}, settings);
  const double before = trainer.evaluate(windows).loss();
  for (int i = 0; i < 8; ++i) (void)trainer.step(windows);
  const auto after = trainer.evaluate(windows);
  fmt::print("loss {:.3f}, after 8 steps {:.3f}, accuracy {:.2f}\n", before, after.loss(), after.accuracy());

  if (argc > 1) {
    CheckpointDirectory checkpoints(argv[1]);
    trainer.save(checkpoints);
  }
  return report.ok() && after.loss() < 0.5 * before ? 0 : 1;
}

// The EAGLE-3 objective for both backbones: packed documents are documents apart, and what has nothing to teach is 0.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tests/objectives/ttt_data.hpp"
#include "tests/support/same_bits.hpp"

using namespace k3spec;
using namespace k3spec::test::ttt;

namespace {

/// Two documents in a row, and each in a row of its own, padded behind where it is the shorter one.
template <class Config>
void packed_is_apart(index_t first, index_t second) {
  const index_t all = first + second, length = std::max(first, second);
  Data<Config> packed(1, all), apart(0, length);
  std::vector<index_t> row_apart;
  for (index_t r = 0; r < all; ++r) {
    while (r == first && static_cast<index_t>(apart.ids.size()) < length) apart.pad();
    row_apart.push_back(static_cast<index_t>(apart.ids.size()));
    apart.add(r, r == first - 1 || r == all - 1);
  }
  while (static_cast<index_t>(apart.ids.size()) < 2 * length) apart.pad();
  apart.sequences = 2, apart.rows = 2 * length;
  packed.start.resize(packed.ids.size()), packed.remaining.resize(packed.ids.size());
  const std::vector<index_t> lens{first, second};
  document_bounds(Matrix<const index_t>(lens.data(), 1, 2), all, Vector<index_t>(packed.start.data(), all),
                  Vector<index_t>(packed.remaining.data(), all));
  for (const TttLoss& loss : losses) {
    CAPTURE(static_cast<int>(loss.lk));
    const Outcome<Config> a(packed, loss), b(apart, loss);
    CHECK(a.result.step_supervised == b.result.step_supervised);
    CHECK(a.result.step_correct == b.result.step_correct);
    CHECK(a.result.step_prefix_hits == b.result.step_prefix_hits);
    CHECK(a.result.step_chains == b.result.step_chains);
    CHECK(a.result.step_chains[0] == all - 2);
    CHECK(a.result.step_chains[2] == all - 6);
    CHECK(a.result.step_supervised[0] > 0);
    for (std::size_t k = 0; k < steps; ++k) {
      CHECK(a.result.step_losses[k] == doctest::Approx(b.result.step_losses[k]).epsilon(1e-12));
    }
    CHECK(largest_difference(a.gradients, b.gradients) <= 1e-12);
    CHECK(a.result.loss > 0);
    for (index_t r = 0; r < all; ++r) {
      const index_t row = row_apart[static_cast<std::size_t>(r)], width = Eagle3Draft<Config>::aux_width,
                    hidden = Config::hidden_size;
      for (index_t j = 0; j < width; ++j) {
        const double x = a.d_aux[static_cast<std::size_t>(r * width + j)],
                     y = b.d_aux[static_cast<std::size_t>(row * width + j)];
        CHECK(std::abs(x - y) <= 1e-12 * std::max(1.0, std::abs(y)));
      }
      for (index_t k = 0; k < std::min(steps, packed.remaining[static_cast<std::size_t>(r)]); ++k) {
        const auto &x = a.out[static_cast<std::size_t>(k)], &y = b.out[static_cast<std::size_t>(k)];
        CHECK(std::equal(x.begin() + r * hidden, x.begin() + (r + 1) * hidden, y.begin() + row * hidden));
      }
    }
  }
}

/// Everything that has nothing to teach, for each loss.
template <class Config>
void nothing_is_zero() {
  for (const TttLoss& loss : losses) {
    CAPTURE(static_cast<int>(loss.lk));
    Data<Config> empty(2, 6), unsayable(2, 6);
    std::fill(empty.loss_mask.begin(), empty.loss_mask.end(), std::uint8_t{0});
    std::fill(unsayable.t2d.begin(), unsayable.t2d.end(), std::uint8_t{0});
    const Data<Config> one_token(3, 1), single(1, 1);
    for (const Data<Config>* data :
         std::initializer_list<const Data<Config>*>{&empty, &unsayable, &one_token, &single}) {
      const Outcome<Config> o(*data, loss);
      CHECK(o.finite());
      CHECK(o.zero());
      CHECK(o.result.supervised == 0);
      CHECK(o.result.accept_length == 1);
    }
    Data<Config> padded(3, 4);
    for (std::size_t r = 4; r < 8; ++r) padded.attention_mask[r] = 0, padded.loss_mask[r] = 0;
    const Outcome<Config> o(padded, loss);
    CHECK(o.finite());
    CHECK(o.result.supervised > 0);
    const auto row = o.d_aux.begin() + 4 * Eagle3Draft<Config>::aux_width;
    CHECK(std::all_of(row, row + 4 * Eagle3Draft<Config>::aux_width, [](double x) { return x == 0; }));
    Data<Config> seen(1, 5), alone(1, 1);
    alone.loss_mask[0] = 1;  // no target batch has that, but nothing forbids it
    CHECK(Outcome<Config>(seen, loss).finite());
    CHECK(Outcome<Config>(alone, loss).finite());
  }
}

}  // namespace

TEST_CASE("packed documents are documents apart") {
  for (const auto& [first, second] : {std::pair<index_t, index_t>{5, 7}, {141, 70}}) {
    packed_is_apart<K3>(first, second);
    packed_is_apart<DeepSeek>(first, second);
  }
}

TEST_CASE("nothing to teach: loss 0 and gradients 0, not NaN") {
  nothing_is_zero<K3>();
  nothing_is_zero<DeepSeek>();
  nothing_is_zero<K3OfOne>();
  nothing_is_zero<DeepSeekOfOne>();
}

TEST_CASE("a step that nothing supervises is 0, beside steps that something does") {
  const auto check = []<class Config>(Config) {
    for (const TttLoss& loss : losses) {
      CAPTURE(static_cast<int>(loss.lk));
      const Outcome<Config> o(Data<Config>(2, 3), loss);
      CHECK(o.result.step_supervised[0] > 0);
      CHECK(o.result.step_supervised[2] == 0);
      CHECK(o.result.step_losses[2] == 0);
      CHECK(o.finite());
      CHECK_FALSE(o.zero());
    }
  };
  check(K3{});
  check(DeepSeek{});
}

TEST_CASE("nothing to teach leaves the states' gradient as it was where it is added to") {
  using Draft = Eagle3Draft<K3>;
  Data<K3> empty(2, 6);
  std::fill(empty.loss_mask.begin(), empty.loss_mask.end(), std::uint8_t{0});
  TttObjective<Draft, double> objective(empty.rows, steps);
  Gradients<Draft, double> gradients;
  gradients.zero();
  const auto d_w = gradients.weights();
  std::vector<double> d_aux(empty.aux.size(), 7);
  const Matrix<double> view(d_aux.data(), empty.rows, Draft::aux_width);
  const auto run = [&](Into into) {
    objective.forward_backward(Cpu{1}, Outcome<K3>::parameters().weights(), d_w, empty.batch(), empty.teacher(),
                               std::nullopt, {view, into});
  };
  run(Into::accumulate);
  run(Into::nothing);
  CHECK(d_aux == std::vector<double>(d_aux.size(), 7));
  run(Into::overwrite);
  CHECK(d_aux == std::vector<double>(d_aux.size()));
}

TEST_CASE_TEMPLATE("nothing to teach is 0 in other precisions, too", T, float, bfloat16) {
  const auto check = []<class Config>(Config) {
    using Draft = Eagle3Draft<Config>;
    using S = accumulate_t<T>;
    Data<Config> data(2, 6);
    std::fill(data.loss_mask.begin(), data.loss_mask.end(), std::uint8_t{0});
    std::fill(data.attention_mask.begin(), data.attention_mask.begin() + 6, std::uint8_t{0});
    const auto narrow = [](const std::vector<double>& v) {
      std::vector<T> all;
      for (const double x : v) all.push_back(T(static_cast<S>(x)));
      return all;
    };
    const std::vector<T> aux = narrow(data.aux), logits = narrow(data.logits);
    const auto wide = data.batch();
    const TttBatch<T, Draft::aux_width> batch{wide.length,
                                              wide.input_ids,
                                              wide.attention_mask,
                                              wide.loss_mask,
                                              Rows<const T, Draft::aux_width>(aux.data(), 12),
                                              wide.teacher_top,
                                              wide.t2d};
    const LogitsTeacher<T> teacher{Matrix<const T>(logits.data(), 12, vocabulary),
                                   Vector<const index_t>(data.selected.data(), Draft::draft_vocabulary)};
    Parameters<Draft, T> parameters;
    parameters.initialize(3, 0.4);
    for (const TttLoss& loss : losses) {
      TttObjective<Draft, T> objective(12, steps, loss);
      Gradients<Draft, T> gradients;
      gradients.zero();
      std::vector<S> d_aux(aux.size(), S(NAN));
      const test::TttNumbers r =
          objective.forward_backward(Cpu{2}, parameters.weights(), gradients.weights(), batch, teacher, std::nullopt,
                                     Matrix<S>(d_aux.data(), 12, Draft::aux_width));
      const auto all = gradients.flat();
      CHECK(r.loss == 0);
      CHECK(r.supervised == 0);
      CHECK(std::all_of(all.data(), all.data() + all.size(), [](S x) { return x == 0; }));
      CHECK(std::all_of(d_aux.begin(), d_aux.end(), [](S x) { return x == 0; }));
      for (index_t k = 0; k < steps; ++k) {
        const T* out = objective.out(k).data();
        CHECK(std::all_of(out, out + 12 * Draft::hidden, [](T x) { return std::isfinite(static_cast<S>(x)); }));
      }
    }
  };
  check(K3{});
  check(DeepSeek{});
}

TEST_CASE("a draft vocabulary of one token: nothing can go wrong, and nothing is learnt") {
  const auto check = []<class Config>(Config) {
    for (const TttLoss& loss : losses) {
      const Outcome<Config> o(Data<Config>(2, 6), loss);
      CHECK(o.finite());
      CHECK(o.zero());
      CHECK(o.result.supervised == 10 + 8 + 6);
      CHECK(o.result.correct == o.result.supervised);
      CHECK(o.result.step_alphas[1] == (loss.lk == LkLoss::none ? 0 : 1));
    }
  };
  check(K3OfOne{});
  check(DeepSeekOfOne{});
}

TEST_CASE("no loss depends on how the vocabulary is walked") {
  const Data<K3> data(2, 9);
  for (const TttLoss& loss : losses) {
    const Outcome<K3> whole(data, loss);
    const Outcome<K3, 5> chunked(data, loss);
    CHECK(whole.result.step_losses == chunked.result.step_losses);
    CHECK(whole.result.step_alphas == chunked.result.step_alphas);
    CHECK(largest_difference(chunked.gradients, whole.gradients) <= 1e-13);
    CHECK(test::same_bits(chunked.d_aux, whole.d_aux));
  }
}

namespace {

template <class Config>
void parts_are_the_whole(const TttLoss& loss) {
  using Draft = Eagle3Draft<Config>;
  constexpr double rounding = 1e-12;  // sums of some ten terms near 1 in another order
  Data<Config> whole(4, 9);
  std::fill(whole.loss_mask.begin() + 12, whole.loss_mask.begin() + 27, std::uint8_t{0});  // 3 of 9, and none
  const Outcome<Config> wanted(whole, loss);
  TttObjective<Draft, double> objective(9, steps, loss);
  Parameters<Draft, double> parameters;
  parameters.initialize(3, 0.4);
  Gradients<Draft, double> gradients;
  gradients.zero();
  std::vector<double> d_aux(whole.aux.size());
  std::vector<Data<Config>> all;
  for (index_t i = 0; i < 4; ++i) all.push_back(part(whole, i));
  TttTotals totals;
  for (const auto& data : all) totals += objective.count(Cpu{}, parameters.weights(), data.batch(), data.teacher());
  CHECK(totals.supervised == wanted.result.step_supervised);
  TttMetrics sums(steps, loss);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto r =
        objective.forward_backward(Cpu{2}, parameters.weights(), gradients.weights(), all[i].batch(), all[i].teacher(),
                                   totals, Matrix<double>(d_aux.data() + i * d_aux.size() / 4, 9, Draft::aux_width));
    CHECK((r.supervised() > 0) == (i != 2));
    sums += r;
  }
  std::vector<double> values;
  const auto d_w = gradients.weights();
  Draft::visit(d_w, Path{}, [&](const Path&, const auto& view, auto) {
    values.insert(values.end(), view.data(), view.data() + (view.data() == nullptr ? 0 : view.size()));
  });
  CHECK(largest_difference(values, wanted.gradients) <= rounding);
  CHECK(largest_difference(d_aux, wanted.d_aux) <= rounding);
  CHECK(sums.loss() == doctest::Approx(wanted.result.loss).epsilon(rounding));
  CHECK(sums.supervised() == wanted.result.supervised);
  CHECK(sums.accuracy().numerator == static_cast<double>(wanted.result.correct));
  CHECK(sums.simulated_accept_length() == doctest::Approx(wanted.result.accept_length).epsilon(rounding));
  for (std::size_t k = 0; k < steps; ++k) {
    CHECK(sums.step_alpha(static_cast<index_t>(k)).value() ==
          doctest::Approx(wanted.result.step_alphas[k]).epsilon(rounding));
  }
  totals.supervised[1] = 1;
  CHECK_THROWS_WITH_AS(objective.forward_backward(Cpu{}, parameters.weights(), gradients.weights(), all[0].batch(),
                                                  all[0].teacher(), totals),
                       doctest::Contains("totals: supervised predictions of step 1: found 1, wanted at least"), Error);
}

}  // namespace

TEST_CASE("batches divided by the counts of all of them are one large batch, whatever each supervises") {
  for (const TttLoss& loss : losses) {
    CAPTURE(static_cast<int>(loss.lk));
    parts_are_the_whole<K3>(loss);
  }
}

TEST_CASE("position ids: none of K3's business, and DeepSeek's phase") {
  const auto with_ids = []<class Config>(Config, index_t factor) {
    Data<Config> data(2, 6);
    for (index_t r = 0; factor > 0 && r < 12; ++r) data.position_ids.push_back(r % 6 * factor);
    return Outcome<Config>(data, {});
  };
  CHECK(test::same_bits(with_ids(K3{}, 0).gradients, with_ids(K3{}, 1000).gradients));
  CHECK(test::same_bits(with_ids(DeepSeek{}, 0).gradients, with_ids(DeepSeek{}, 1).gradients));
  CHECK_FALSE(test::same_bits(with_ids(DeepSeek{}, 0).gradients, with_ids(DeepSeek{}, 2).gradients));
}

TEST_CASE("documents that do not fit are refused by name") {
  Data<K3> data(2, 6);
  const auto refuse = [&](const char* message) { CHECK_THROWS_WITH_AS(Outcome<K3>(data, {}), message, Error); };
  data.remaining.assign(11, 0), data.start.assign(12, 0);
  refuse("batch: doc_remaining: found 11, wanted 12 rows");
  data.remaining.clear();
  refuse("batch: doc_remaining: found 0, wanted 12 rows");
  data.remaining.assign(12, 0), data.start.clear();
  refuse("batch: document starts: found 0, wanted 12 rows");
  // Documents of 6, 4 and 2 tokens.
  const std::vector<index_t> start{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4}, remaining{5, 4, 3, 2, 1, 0, 3, 2, 1, 0, 1, 0};
  data.start = start, data.remaining = remaining;
  CHECK(Outcome<K3>(data, {}).finite());
  data.start[8] = 3;
  refuse("batch: document start at row 8: found 3, wanted 0 to 2");
  data.start[8] = 1;
  refuse("batch: documents at row 8: found start 1, 1 left, wanted start 0, 1 left");
  data.start[8] = 2;  // begins inside another
  refuse("batch: documents at row 8: found start 2, 1 left, wanted start 0, 1 left");
  data.start = start, data.remaining[10] = 2;
  refuse("batch: doc_remaining at row 10: found 2, wanted 0 to 1");
  data.remaining[10] = 0;  // a document of one, and then the row's last position goes on with it
  refuse("batch: documents at row 11: found start 4, 0 left, wanted start 5");
  data.remaining = remaining, data.start[10] = 0;  // goes on where the one before has ended
  refuse("batch: documents at row 10: found start 0, 1 left, wanted start 4");
  data.start = start, data.remaining[2] = 2;
  refuse("batch: documents at row 2: found start 0, 2 left, wanted start 0, 3 left");
  data.remaining = remaining, data.start[6] = 1;  // no row begins inside a document
  refuse("batch: document start at row 6: found 1, wanted 0 to 0");
  data.start = start, data.position_ids.assign(3, 0);
  refuse("batch: position_ids: found 3, wanted 12 rows");
}

TEST_CASE("positions that float32 cannot count are refused by name") {
  Data<DeepSeek> data(2, 6);
  data.position_ids.assign(12, 1 << 24), data.position_ids[1] = -(1 << 24);
  CHECK(Outcome<DeepSeek>(data, {}).finite());
  const auto refuse = [&](index_t position, const char* message) {
    data.position_ids[7] = position;
    CHECK_THROWS_WITH_AS(Outcome<DeepSeek>(data, {}), message, Error);
  };
  refuse((1 << 24) + 1, "batch: position_ids at row 7: found 16777217, wanted -16777216 to 16777216");
  refuse(-(1 << 24) - 1, "batch: position_ids at row 7: found -16777217, wanted -16777216 to 16777216");
  refuse(std::numeric_limits<index_t>::max(),
         "batch: position_ids at row 7: found 9223372036854775807, wanted -16777216 to 16777216");
}

TEST_CASE_TEMPLATE("both teachers' rows are the draft's; the target's own have to be shifted", T, float, double,
                   bfloat16) {
  // Rows e0 ... e3, a head and a selection that are the identity: logits are the row that was read.
  using S = accumulate_t<T>;
  using Ids = std::vector<index_t>;
  std::vector<T> identity(16, T(0.0F));
  for (std::size_t i = 0; i < 4; ++i) identity[5 * i] = T(1.0F);
  const Matrix<const T> unit(identity.data(), 4, 4);
  const Ids all{0, 1, 2, 3};
  std::vector<T> own = identity;
  const auto read = [&](const auto& teacher, index_t first, index_t n) {
    std::vector<S> logits(static_cast<std::size_t>(4 * n), S(NAN));
    teacher.selected_logits(Cpu{1}, first, Matrix<S>(logits.data(), n, 4));
    Ids rows;
    for (index_t r = 0; r < n; ++r) {
      const S* x = logits.data() + 4 * r;
      CHECK(std::count(x, x + 4, S(0)) == 3);
      rows.push_back(std::find(x, x + 4, S(1)) - x);
    }
    return rows;
  };
  const auto both = [&](index_t first, index_t n, const Ids& wanted) {
    const Matrix<const T> rows(own.data(), 4, 4);
    CHECK(read(HiddenTeacher<T>{rows, unit}, first, n) == wanted);
    CHECK(read(LogitsTeacher<T>{rows, Vector<const index_t>(all.data(), 4)}, first, n) == wanted);
  };
  const auto shifted = [&](index_t length) {
    own = identity;
    shift_states_left(Cpu{2}, Matrix<T>(own.data(), 4, 4), length);
  };
  both(0, 4, {0, 1, 2, 3}), both(1, 2, {1, 2}), both(2, 0, {});
  shifted(2), both(0, 4, {1, 1, 3, 3}), both(1, 2, {1, 3});
  shifted(4), both(0, 4, {1, 2, 3, 3}), both(2, 1, {3});
  shifted(1), both(0, 4, {0, 1, 2, 3});
  CHECK_THROWS_WITH_AS(shifted(3), "shift_states_left: length: found 3, wanted a divisor of 4", Error);
  CHECK_THROWS_WITH_AS(shifted(0), "shift_states_left: length: found 0, wanted a divisor of 4", Error);
}

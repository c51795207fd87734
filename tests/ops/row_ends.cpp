// Ops that go over a row in packets of their own: the last packet ends where the row does, and rows may have gaps.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <k3spec/core/rng.hpp>
#include <k3spec/ops/attention_residual.hpp>
#include <k3spec/ops/kda.hpp>
#include <k3spec/ops/latent_attention.hpp>
#include <k3spec/ops/route.hpp>
#include <k3spec/ops/short_conv.hpp>

using namespace k3spec;

namespace {

const Cpu device{1};
constexpr float untouched = -1000;
/// Less than a packet, packets and a rest, packets alone.
constexpr index_t widths[] = {1, 5, 8, 13, 16};

std::vector<float> numbers(index_t n, std::uint64_t seed) {
  std::vector<float> x;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(n); ++i) {
    x.push_back(static_cast<float>(Philox(seed).normal(i)));
  }
  return x;
}

/// Rows with room behind each, and more behind the last, that no op may write to.
class Apart {
 public:
  Apart(index_t rows, index_t columns, index_t gap)
      : rows_(rows),
        columns_(columns),
        stride_(columns + gap),
        memory_(static_cast<std::size_t>(rows * stride_ + 16), untouched) {}

  Matrix<float> view() { return {memory_.data(), Extents<dyn, dyn>(rows_, columns_), stride_}; }
  std::vector<float> rows() {
    std::vector<float> all;
    for (index_t r = 0; r < rows_; ++r) all.insert(all.end(), view().row(r), view().row(r) + columns_);
    return all;
  }
  bool gaps_are_untouched() const {
    const auto end = static_cast<index_t>(memory_.size());
    for (index_t i = 0; i < end; ++i) {
      const bool is_gap = i >= rows_ * stride_ || i % stride_ >= columns_;
      if (is_gap && memory_[static_cast<std::size_t>(i)] != untouched) return false;
    }
    return true;
  }

 private:
  index_t rows_, columns_, stride_;
  std::vector<float> memory_;
};

/// \param op  writes to a matrix
template <class F>
void writes_its_rows(index_t rows, index_t columns, F&& op) {
  CAPTURE(columns);
  Apart together(rows, columns, 0), apart(rows, columns, 3);
  op(together.view()), op(apart.view());
  CHECK(apart.rows() == together.rows());
  CHECK(together.gaps_are_untouched());
  CHECK(apart.gaps_are_untouched());
  const auto all = together.rows();
  CHECK(std::find(all.begin(), all.end(), untouched) == all.end());
}

Matrix<const float> matrix(const std::vector<float>& x, index_t columns) {
  return Matrix<const float>(x.data(), static_cast<index_t>(x.size()) / columns, columns);
}

/// A sequence of all rows whose memory is made for what goes on behind it.
struct Sequence {
  std::vector<float> recurrent, log, window;
  KdaSequence<float> sequence;

  Sequence(index_t rows, index_t state, index_t channels, bool logged)
      : recurrent(static_cast<std::size_t>(state)),
        log(static_cast<std::size_t>(rows * state)),
        window(numbers((3 + rows) * channels, 4)),
        sequence{{recurrent.data(), log.data(), Matrix<float>(window.data(), 3 + rows, channels), rows},
                 0,
                 rows,
                 0,
                 logged} {}
};

}  // namespace

TEST_CASE("a row's end: attention residuals") {
  for (const index_t n : widths) {
    const auto x = numbers(3 * n, 1), z = numbers(3 * n, 2), w = numbers(n, 3);
    const std::vector<Matrix<const float>> values{matrix(x, n), matrix(z, n)};
    writes_its_rows(3, n, [&](const Matrix<float>& y) {
      attention_residual<const float, const float>(device, values, Vector<const float>(w.data(), n), 1e-5, y);
    });
  }
}

TEST_CASE("a row's end: the sum of experts' results") {
  std::vector<index_t> begin{0, 2, 4}, row{0, 2, 1, 1}, place{0, 2, 1, 3};
  const ExpertRows<> sorted{Vector<index_t>(begin.data(), 3), Vector<index_t>(row.data(), 4),
                            Matrix<index_t>(place.data(), 2, 2)};
  for (const index_t n : widths) {
    auto results = numbers(4 * n, 1), weights = numbers(4, 2);
    writes_its_rows(2, n, [&](const Matrix<float>& y) {
      combine_experts(device, sorted, Matrix<float>(results.data(), 4, n), Matrix<float>(weights.data(), 2, 2), y);
    });
  }
}

TEST_CASE("a row's end: short convolutions") {
  constexpr index_t rows = 4;
  for (const index_t n : widths) {
    const auto x = numbers(rows * 3 * n, 1), w = numbers(4 * n, 2);
    for (const std::size_t part : {0U, 1U, 2U}) {
      for (const bool logged : {false, true}) {
        writes_its_rows(rows, n, [&](const Matrix<float>& y) {
          Sequence s(rows, 1, 3 * n, logged);
          std::vector<float> scratch(static_cast<std::size_t>((3 + rows) * 3 * n));
          Apart others(rows, n, 0);
          ShortConv<float> problem{matrix(x, 3 * n),
                                   {matrix(w, n), matrix(w, n), matrix(w, n)},
                                   {others.view(), others.view(), others.view()},
                                   Matrix<float>(scratch.data(), 3 + rows, 3 * n),
                                   &s.sequence,
                                   1};
          problem.y[part] = y;
          short_conv(device, problem);
          CHECK(others.gaps_are_untouched());
        });
      }
    }
  }
}

TEST_CASE("a row's end: Kimi delta attention") {
  constexpr index_t rows = 3, heads = 2;
  const auto check = []<index_t Dim>(std::integral_constant<index_t, Dim>) {
    constexpr index_t columns = heads * Dim;
    writes_its_rows(rows, columns, [](const Matrix<float>& o) {
      const index_t stride = o.row_stride();
      std::vector<std::vector<float>> memory;
      const auto input = [&](std::uint64_t seed) {
        auto& x = memory.emplace_back(static_cast<std::size_t>(rows * stride), NAN);
        const auto draws = numbers(rows * columns, seed);
        for (index_t r = 0; r < rows; ++r) std::copy_n(draws.data() + r * columns, columns, x.data() + r * stride);
        return Matrix<const float>(x.data(), Extents<dyn, dyn>(rows, columns), stride);
      };
      memory.reserve(4);
      const auto beta = numbers(rows * heads, 5);
      for (const bool logged : {false, true}) {
        using Layout = KdaLayout<float, Dim>;
        Sequence s(rows, heads * std::max(Layout::state_size, Layout::log_size), 1, logged);
        memory.clear();
        const auto q = input(1), k = input(2), v = input(3), decay = input(4);
        kda_recurrence(device, KdaRecurrence<float, Dim>{q, k, v, decay, matrix(beta, heads), o, &s.sequence, 1});
      }
    });
  };
  check(std::integral_constant<index_t, 1>());
  check(std::integral_constant<index_t, 5>());
  check(std::integral_constant<index_t, 16>());
  check(std::integral_constant<index_t, 19>());
}

TEST_CASE("a row's end: attention over a cache of latents") {
  constexpr index_t tokens = 3, heads = 2, positions = 7;
  for (const index_t n : widths) {
    const index_t columns = n + 2;
    const auto q = numbers(tokens * heads * columns, 1);
    auto cache = numbers(positions * columns, 2);
    writes_its_rows(tokens * heads, n, [&](const Matrix<float>& o) {
      std::vector<float> scores(tokens * heads * attention_tile), top(tokens * heads), total(tokens * heads);
      const LatentSequence<float> sequence{
          Matrix<float>(cache.data(), positions, columns), 0, tokens, {positions - tokens, tokens}};
      latent_attention(device, LatentAttention<float>{
                                   matrix(q, columns), o, Matrix<float>(scores.data(), tokens * heads, attention_tile),
                                   Vector<float>(top.data(), tokens * heads),
                                   Vector<float>(total.data(), tokens * heads), &sequence, 1, heads, 0.3});
    });
  }
}

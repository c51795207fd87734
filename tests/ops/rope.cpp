// Rotary positions: what a position is, that angles are float32's whatever is stored, and YaRN's softmax factor.
#include <doctest/doctest.h>

#include <tests/ops/ttt_case.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/ops/rope.hpp>
#include <k3spec/ops/rope_frequencies.hpp>

using namespace k3spec;
using namespace k3spec::test;

namespace {

/// Frequencies 1 and 0.01, stretched by nothing.
struct Two : configs::DeepSeekV3 {
  static constexpr index_t qk_rope_head_dim = 4;
  static constexpr std::optional<Yarn> rope_scaling = std::nullopt;
};
struct Six : Two {
  static constexpr index_t qk_rope_head_dim = 6;
};
struct Short : Two {
  static constexpr std::optional<Yarn> rope_scaling = Yarn{40, 32, 1, 4096};
  static constexpr index_t max_position_embeddings = 4096;
};
/// The published one, where positions do not go beyond the original ones.
struct NotBeyond : configs::DeepSeekV3 {
  static constexpr index_t max_position_embeddings = 4096;
};
/// So few original positions that all frequencies but the first are slow: the ramp from 0 to 0 is a step.
struct NoRamp : configs::DeepSeekV3 {
  static constexpr index_t qk_rope_head_dim = 8, max_position_embeddings = 64;
  static constexpr std::optional<Yarn> rope_scaling = Yarn{40, 32, 1, 4};
};
/// So many original positions that no frequency but the last three is slow for certain: the ramp ends beyond them all.
struct LongRamp : configs::DeepSeekV3 {
  static constexpr double rope_theta = 10000;
  static constexpr index_t qk_rope_head_dim = 64, max_position_embeddings = 40 * 131072;
  static constexpr std::optional<Yarn> rope_scaling = Yarn{40, 32, 1, 131072};
};
struct LongUnstretched : LongRamp {
  static constexpr std::optional<Yarn> rope_scaling = std::nullopt;
};
struct OtherMscale : configs::DeepSeekV3 {
  static constexpr std::optional<Yarn> rope_scaling = Yarn{40, 32, 1, 4096, 1, 0.5};
};

/// (1, 0, 1, 0) at a position, through the op.
template <class T>
std::array<double, 4> rotated(index_t position) {
  std::vector<T> q{T(1.0f), T(0.0f), T(1.0f), T(0.0f)}, k = q;
  rope_forward(
      Cpu{},
      RopeProblem<AttentionHeads<1, 0, 4, 1>, T>{
          rope_frequencies<Two>(), {nullptr, 0, position}, Matrix<T>(q.data(), 1, 4), Matrix<T>(k.data(), 1, 4)});
  CHECK(std::memcmp(q.data(), k.data(), 4 * sizeof(T)) == 0);
  return {double{static_cast<accumulate_t<T>>(q[0])}, double{static_cast<accumulate_t<T>>(q[1])},
          double{static_cast<accumulate_t<T>>(q[2])}, double{static_cast<accumulate_t<T>>(q[3])}};
}

}  // namespace

TEST_CASE("a row's position: counted within its sequence or given, from where it starts and a step further") {
  const RotaryPositions counted{nullptr, 3}, appended{nullptr, 0, 100};
  const std::vector<index_t> ids{7, 0, 5};
  const RotaryPositions given{ids.data(), 3};
  for (index_t row = 0; row < 3; ++row) {
    CHECK(counted(row) == row);
    CHECK(counted(row + 3) == row);
    CHECK(counted.shifted(2).shifted(1)(row + 3) == row + 3);
    CHECK(appended(row) == 100 + row);
    CHECK(given(row) == ids[static_cast<std::size_t>(row)]);
    CHECK(given.shifted(4)(row) == ids[static_cast<std::size_t>(row)] + 4);
  }
}

TEST_CASE("YaRN's ramp, bit for bit: before it, on it, after it") {
  // Values of the reference implementation. The ramp is that between indices 10 and 23.
  const auto& f = rope_frequencies<configs::DeepSeekV3>();
  const auto& plain = rope_frequencies<NotBeyond>();
  CHECK(f[0] == 0x1p+0f);
  CHECK(f[9] == 0x1.33281ap-4f);
  CHECK(f[10] == 0x1.ccab84p-5f);
  CHECK(f[11] == 0x1.3f8b74p-5f);
  CHECK(f[12] == 0x1.b86438p-6f);
  CHECK(f[16] == 0x1.6872b2p-8f);
  CHECK(f[19] == 0x1.67459ap-10f);
  CHECK(f[22] == 0x1.74eea6p-13f);
  CHECK(f[23] == 0x1.17a8e4p-15f);
  CHECK(f[24] == 0x1.a36e3p-16f);
  CHECK(f[31] == 0x1.bf74ap-19f);
  CHECK(plain[10] == 0x1.ccab84p-5f);
  CHECK(plain[11] == 0x1.59742ap-5f);
  CHECK(plain[16] == 0x1.47ae14p-7f);
  CHECK(plain[23] == 0x1.5d931cp-10f);
  CHECK(plain[31] == 0x1.17a8e4p-13f);
}

TEST_CASE("a ramp that ends beyond the last frequency goes on to its own end") {
  // 64 ln(131072 / 2π) / (2 ln 10000) = 34.55 is where one turn is, 64 ln(131072 / 64π) / (2 ln 10000) = 22.51 where 32
  // are: the ramp is that between 22 and 35, with 32 frequencies. At the last one, 31, it is 9/13.
  const auto& f = rope_frequencies<LongRamp>();
  const auto& plain = rope_frequencies<LongUnstretched>();
  CHECK(f[22] == plain[22]);
  for (std::size_t i = 23; i < 32; ++i) {
    const double slow = static_cast<double>(i - 22) / 13;
    // Five operations in float.
    CHECK(f[i] == doctest::Approx(plain[i] * (slow / 40 + 1 - slow)).epsilon(5 * 0x1p-24));
  }
  CHECK(f[31] / plain[31] == doctest::Approx(9.0 / 13 / 40 + 4.0 / 13).epsilon(1e-6));
}

TEST_CASE("a ramp of no width is a step") {
  const std::array<float, 4> wanted{0x1p+0f, 0x1.47ae14p-9f, 0x1.0624dcp-12f, 0x1.a36e3p-16f};
  CHECK(rope_frequencies<NoRamp>() == wanted);
}

TEST_CASE_TEMPLATE("position 15962 at frequency 1: cos is -0.908, whatever is stored", T, bfloat16, float, double) {
  // A position kept in bfloat16 would be 15936, whose cos is -0.268.
  const cpu::RopeAngles<4, T> angles(rope_frequencies<Two>(), 15962);
  CHECK(std::abs(double{angles.cos[0]} - -0.908) <= 1e-3);
  // And what the rotation makes of (1, 0), rounded to what is stored.
  const auto y = rotated<T>(15962);
  const double stored = std::is_same_v<T, bfloat16> ? 0x1p-9 : 1e-7;
  CHECK(std::abs(y[0] - std::cos(15962.0)) <= stored);
  CHECK(std::abs(y[1] - std::sin(15962.0)) <= stored);
  // The angle is rounded to float32, by at most 2^-24 of it.
  CHECK(std::abs(y[2] - std::cos(159.62)) <= stored + 160 * 0x1p-23);
  CHECK(std::abs(y[3] - std::sin(159.62)) <= stored + 160 * 0x1p-23);
}

TEST_CASE_TEMPLATE("backward undoes forward, and position 0 is no rotation", T, float, double) {
  constexpr index_t heads = 3, nope = 2, rope = 6, rows = 50, width = heads * (nope + rope);
  using Shape = AttentionHeads<heads, nope, rope, 1>;
  std::vector<T> q, k;
  for (index_t i = 0; i < rows * width; ++i)
    q.push_back(static_cast<T>(Philox(1, 2).normal(static_cast<std::uint64_t>(i))));
  for (index_t i = 0; i < rows * rope; ++i)
    k.push_back(static_cast<T>(Philox(1, 3).normal(static_cast<std::uint64_t>(i))));
  const auto q0 = q, k0 = k;
  const Matrix<T> qm(q.data(), rows, width), km(k.data(), rows, rope);
  const RopeProblem<Shape, T> problem{rope_frequencies<Six>(), {nullptr, rows}, qm, km};
  rope_forward(Cpu{3}, problem);
  for (index_t i = 0; i < rows * width; ++i) {
    const auto n = static_cast<std::size_t>(i);
    const bool turns = i / width > 0 && i % (nope + rope) >= nope;
    CHECK((q[n] != q0[n]) == turns);
  }
  rope_backward(Cpu{3}, problem);
  // Two rotations, each off by a few roundings of values below 5.
  const double within = 5 * 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::size_t i = 0; i < q.size(); ++i) CHECK(std::abs(static_cast<double>(q[i] - q0[i])) <= within);
  for (std::size_t i = 0; i < k.size(); ++i) CHECK(std::abs(static_cast<double>(k[i] - k0[i])) <= within);
}

TEST_CASE("operands that do not fit are refused") {
  std::vector<float> x(64);
  const auto rotate = [&](index_t q_rows, index_t q_columns, index_t k_rows, index_t k_columns) {
    rope_forward(Cpu{}, RopeProblem<AttentionHeads<1, 2, 4, 1>, float>{rope_frequencies<Two>(),
                                                                       {},
                                                                       Matrix<float>(x.data(), q_rows, q_columns),
                                                                       Matrix<float>(x.data(), k_rows, k_columns)});
  };
  CHECK_NOTHROW(rotate(2, 6, 2, 4));
  CHECK_THROWS_WITH_AS(rotate(2, 5, 2, 4), doctest::Contains("rope: q"), Error);
  CHECK_THROWS_WITH_AS(rotate(2, 6, 3, 4), doctest::Contains("rope: k_rope"), Error);
  CHECK_THROWS_WITH_AS(rotate(2, 6, 2, 5), doctest::Contains("rope: k_rope"), Error);
}

TEST_CASE("YaRN's softmax factor: (0.1 ln 40 + 1) squared, where positions go beyond the original ones") {
  const double mscale = 0.1 * std::log(40.0) + 1;
  CHECK(mscale == doctest::Approx(1.3688879454).epsilon(1e-10));
  CHECK(yarn_mscale<configs::DeepSeekV3>() == doctest::Approx(mscale).epsilon(1e-15));
  CHECK(yarn_mscale<OtherMscale>() == doctest::Approx(0.05 * std::log(40.0) + 1).epsilon(1e-15));
  CHECK(yarn_mscale<Two>() == 1);
  CHECK(yarn_mscale<Short>() == 1);
  CHECK(YarnScale<configs::DeepSeekV3>::of<double>(192) ==
        doctest::Approx(mscale * mscale / std::sqrt(192.0)).epsilon(1e-15));
  CHECK(YarnScale<Two>::of<float>(192) == SqrtScale::of<float>(192));
}

TEST_CASE("attention under YaRN's softmax factor is attention with queries that much longer") {
  using Config = configs::DeepSeekV3;
  using Scaled = Case<double, 2, 5, 3, 7, YarnScale<Config>>;
  constexpr std::size_t steps = 3;
  const double factor = yarn_mscale<Config>() * yarn_mscale<Config>();
  Scaled scaled(4, 70, steps, padded(4, 70));
  Small<double> longer(4, 70, steps, padded(4, 70)), plain(4, 70, steps, padded(4, 70));
  for (double& x : longer.q) x *= factor;
  const auto run = [](auto& c) { c.forward(), c.backward(); };
  run(scaled), run(longer), run(plain);
  // By the chain rule: the gradient of what was made longer.
  for (double& d : longer.d_q) d *= factor;
  near("o", scaled.o, longer.o), near("lse", added_up(scaled.lse), added_up(longer.lse)),
      near("d_q", scaled.d_q, longer.d_q);
  for (std::size_t s = 0; s < steps; ++s)
    near("d_kv", scaled.d_kv[s], longer.d_kv[s]), near("d_k_rope", scaled.d_k_rope[s], longer.d_k_rope[s]);
  double difference = 0;
  for (std::size_t i = 0; i < plain.o.size(); ++i)
    difference = std::max(difference, std::abs(plain.o[i] - scaled.o[i]));
  CHECK(difference > 0.01);
}

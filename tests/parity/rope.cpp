// Rotary positions against the reference: frequencies to the bit, rotation and its transpose.
#include <doctest/doctest.h>

#include <tests/support/case_configs.hpp>
#include <tests/support/reference_case.hpp>
#include <k3spec/ops/rope.hpp>
#include <k3spec/ops/rope_frequencies.hpp>

using namespace k3spec;

namespace {

/// The cases' 3 or 4 heads are rotated whole.
struct Plain : test::DeepSeekEvenCases {
  static constexpr index_t qk_rope_head_dim = 16;
};
struct Stretched : Plain {
  static constexpr std::optional<Yarn> rope_scaling = test::yarn_of_cases;
};

template <class Config, class T>
void compare(const std::string& name) {
  using S = accumulate_t<T>;
  constexpr index_t rope = 16, heads = 3, width = heads * rope;
  auto ref = test::ReferenceCase::load(name);
  const auto positions = ref.template values<index_t>("input.positions");
  REQUIRE(ref.shape("input.x") == std::vector<index_t>{2, 6, heads, rope});
  const auto rows = static_cast<index_t>(positions.size());
  auto x = ref.template values<T>("input.x");
  auto d = ref.template values<S>("input.cotangent");
  const auto first_head = [&](const auto& of) {
    auto all = of;
    all.clear();
    for (index_t r = 0; r < rows; ++r) all.insert(all.end(), of.begin() + r * width, of.begin() + r * width + rope);
    return all;
  };
  // As the slice that keys share, the first head's must come out with the same bits.
  auto shared = first_head(x);
  auto d_shared = first_head(d);
  using Shape = AttentionHeads<heads, 0, rope, 1>;
  const auto& frequencies = rope_frequencies<Config>();
  const RotaryPositions at{positions.data()};
  const Matrix<T> q(x.data(), rows, width), k_rope(shared.data(), rows, rope);
  const Matrix<S> d_q(d.data(), rows, width), d_k_rope(d_shared.data(), rows, rope);
  rope_forward(Cpu{2}, RopeProblem<Shape, T>{frequencies, at, q, k_rope});
  rope_backward(Cpu{2}, RopeProblem<Shape, S>{frequencies, at, d_q, d_k_rope});
  CHECK(std::memcmp(shared.data(), first_head(x).data(), shared.size() * sizeof(T)) == 0);
  CHECK(std::memcmp(d_shared.data(), first_head(d).data(), d_shared.size() * sizeof(S)) == 0);

  const double tolerance = test::parity_tolerance<T>;
  ref.compare("output.freqs", frequencies.data(), rope / 2, 0);
  ref.compare("output.y", x.data(), static_cast<index_t>(x.size()), tolerance);
  ref.compare("grad.input.x", d.data(), static_cast<index_t>(d.size()), tolerance);
  ref.finish();
}

}  // namespace

TEST_CASE_TEMPLATE("reference: rope, rope_yarn", T, float, double, bfloat16) {
  for (const std::string folder : {"cases/", "cases_odd/"}) {
    compare<Plain, T>(folder + "rope");
    compare<Stretched, T>(folder + "rope_yarn");
  }
}

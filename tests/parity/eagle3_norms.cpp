// The EAGLE-3 reference cases with one of EAGLE-3.1's two norms each.
#include <tests/parity/eagle3_bfloat16.hpp>

using namespace k3spec;

namespace {

template <class Cases>
struct FcNorm : Cases {
  static constexpr bool fc_norm = true;
};
template <class Cases>
struct NormOutput : Cases {
  static constexpr bool norm_output = true;
};

template <class Cases, class T>
void both() {
  test::eagle3_case<FcNorm<Cases>, T>("eagle3_k3_fc_norm");
  test::eagle3_case<NormOutput<Cases>, T>("eagle3_k3_norm_output");
}

}  // namespace

TEST_CASE_TEMPLATE("reference: eagle3_k3_fc_norm and _norm_output, even and odd sizes", T, float, double, bfloat16) {
  both<test::EvenCases, T>();
  both<test::OddCases, T>();
}

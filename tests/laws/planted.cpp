// The laws catch what breaks them: one planted fault for each.
#include <doctest/doctest.h>

#include <memory>

#include <tests/laws/check_laws.hpp>
#include <k3spec/layers/linear.hpp>

using namespace k3spec;
using laws::Shape;

namespace {

/// A correct layer to plant faults in. `before` and `after` see the calls.
struct Healthy : laws::Defaults {
  using Layer = Linear<9, 4>;
  static constexpr std::array inputs{laws::Input{9}};
  static constexpr index_t output = 4;
  static void forward(const auto& c) { Layer::forward(c.device, c.w, c.x[0], c.y); }
  static void backward(const auto& c, const auto& b) { Layer::backward(c.device, c.w, b.d_w, c.x[0], b.d_y, b.d_x[0]); }
};
constexpr Shape shape{3, 2};

struct WrongInLastElement : Healthy {
  static void backward(const auto& c, const auto& b) {
    Healthy::backward(c, b);
    b.d_w.weight(3, 8) += 1e-8;
  }
};
struct WrongInputGradient : Healthy {
  static void backward(const auto& c, const auto& b) {
    Healthy::backward(c, b);
    b.d_x[0](0, 0) *= 1 + 1e-7;
  }
};
struct AddsToInputGradient : Healthy {
  static void backward(const auto& c, const auto& b) {
    Layer::backward(c.device, c.w, b.d_w, c.x[0], b.d_y, {b.d_x[0], Into::accumulate});
  }
};
struct LeavesAnOutput : Healthy {
  static void forward(const auto& c) {
    Layer::forward(c.device, c.w, c.x[0].rows(1, c.x[0].extent(0) - 1), c.y.rows(1, c.y.extent(0) - 1));
  }
};
struct OverwritesParameterGradient : Healthy {
  static void backward(const auto& c, const auto& b) {
    gemm(c.device, b.d_y, Op::transposed, c.x[0], Op::plain, b.d_w.weight.matrix());
    Layer::backward_input(c.device, c.w, b.d_y, b.d_x[0]);
  }
};
struct PlansTooMuch : Healthy {
  template <class T>
  static constexpr std::size_t scratch_bytes(Shape) {
    return 64;
  }
};
struct Allocates : Healthy {
  static void forward(const auto& c) {
    Healthy::forward(c);
    const std::vector<double> copy(c.y.data(), c.y.data() + c.y.size());
    c.y(0, 0) = copy[0];
  }
};
struct DependsOnThreads : Healthy {
  static void forward(const auto& c) {
    Healthy::forward(c);
    c.y(0, 0) *= c.device.threads > 1 ? 1 + 1e-15 : 1;
  }
};
struct DependsOnNeighbours : Healthy {
  static void forward(const auto& c) {
    Healthy::forward(c);
    c.y(0, 0) += 1e-15 * c.x[0](c.x[0].extent(0) - 1, 0);
  }
};
/// Sums kept in the storage type.
struct RoundsEachSum : Healthy {
  using Layer = Linear<300, 4>;
  static constexpr std::array inputs{laws::Input{300}};
  static void forward(const auto& c) {
    for (index_t r = 0; r < c.y.extent(0); ++r) {
      for (index_t j = 0; j < 4; ++j) {
        using T = std::remove_cvref_t<decltype(c.y(0, 0))>;
        using S = accumulate_t<T>;
        T sum = T(S(0));
        for (index_t k = 0; k < 300; ++k)
          sum = T(static_cast<S>(sum) + static_cast<S>(c.x[0](r, k)) * static_cast<S>(c.w.weight(j, k)));
        c.y(r, j) = sum;
      }
    }
  }
  static void backward(const auto& c, const auto& b) { Layer::backward(c.device, c.w, b.d_w, c.x[0], b.d_y, b.d_x[0]); }
};

}  // namespace

TEST_CASE("a layer without a fault keeps the laws") {
  CHECK(laws::gradients_are_slopes<Healthy>(shape) == "");
  CHECK(laws::overwrites<Healthy, double>(shape) == "");
  CHECK(laws::accumulates<Healthy>(shape) == "");
  CHECK(laws::plan_is_exact<Healthy, double>(shape) == "");
  CHECK(laws::never_allocates<Healthy, double>(shape) == "");
  CHECK(laws::threads_change_nothing<Healthy, double>(shape) == "");
  CHECK(laws::sequences_are_alone<Healthy, double>(shape) == "");
  CHECK(laws::rounds_once<Healthy>(shape) == "");
}

TEST_CASE("each law finds its planted fault") {
  const auto contains = [](const std::string& fault, const char* part) {
    CAPTURE(fault);
    CHECK(fault.find(part) != std::string::npos);
  };
  contains(laws::gradients_are_slopes<WrongInLastElement>(shape), "'weight': slope");
  contains(laws::gradients_are_slopes<WrongInputGradient>(shape), "'input 0': slope");
  contains(laws::overwrites<AddsToInputGradient, double>(shape), "'input 0' is not finite");
  contains(laws::overwrites<LeavesAnOutput, double>(shape), "'output' is not finite");
  contains(laws::accumulates<OverwritesParameterGradient>(shape), "weight: backward twice");
  contains(laws::plan_is_exact<PlansTooMuch, double>(shape), "planned 64 bytes, used 0");
  contains(laws::never_allocates<Allocates, double>(shape), "1 allocations");
  contains(laws::threads_change_nothing<DependsOnThreads, double>(shape), "'output' differs");
  contains(laws::sequences_are_alone<DependsOnNeighbours, double>(shape), "output of sequence 0");
  contains(laws::rounds_once<RoundsEachSum>(shape), "'output': off by");
}

TEST_CASE("a failing law names the law, the layer, the type and the shape") {
  CHECK(laws::case_name<Healthy, bfloat16>("overwrites", {2, 17}) == "overwrites: Healthy, bfloat16, 2 x 17 rows");
  CHECK(laws::case_name<Linear<9, 4>, double>("rounds once", {0, 1}) ==
        "rounds once: Linear<9, 4>, double, 0 x 1 rows");
}

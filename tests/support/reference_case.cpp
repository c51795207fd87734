#include "tests/support/reference_case.hpp"

#include <limits>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using test::ReferenceCase;

namespace {

struct Layer {
  template <class T>
  struct Weights {
    View<T, 2, 2> weight;
    View<T, 2> bias;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "weight", w.weight, Init::normal);
    v(at / "bias", w.bias, Frozen{Init::zeros});
  }
};

/// A case of one layer: y = 2 weight, its gradient, a count.
struct Small : test::TemporaryDirectory {
  std::vector<double> weight{1, 2, 3, 4}, y{2, 4, 6, 8};
  double bias[2] = {5, 6};
  std::int64_t count[1] = {3};
  bool mask[3] = {true, false, true};

  Small() {
    io::write_safetensors(
        file(),
        {io::source("param.m.weight", View<const double, 2, 2>(weight.data())),
         io::source("param.m.bias", View<const double, 2>(bias)), io::source("input.mask", View<const bool, 3>(mask)),
         io::source("output.y", View<const double, 2, 2>(y.data())),
         io::source("output.count", View<const std::int64_t, 1>(count)),
         io::source("grad.param.m.weight", View<const double, 2, 2>(y.data()))},
        {{"config", R"({"eps": 1e-5})"}});
  }
  std::string file() const { return *this / "small.safetensors"; }
};

/// All right but for what the arguments change.
struct Attempt {
  double y_error = 0, count = 3;
  bool read = true, compare_y = true, gradient = true;
  const char* name = "output.y";

  void run() const {
    Small small;
    auto ref = ReferenceCase::load(small.file());
    Parameters<Layer, double> parameters;
    auto weights = parameters.mutable_weights();
    if (read) ref.fill<Layer>(weights, Path{} / "m");
    small.y[2] *= 1 + y_error;
    if (compare_y) ref.compare(name, View<double, 2, 2>(small.y.data()), 1e-10);
    ref.compare("output.count", count, 0);
    Gradients<Layer, double> gradients;
    auto d = gradients.weights();
    std::copy(small.y.begin(), small.y.end(), d.weight.data());
    if (gradient) ref.compare_gradients<Layer>(d, 1e-9, Path{} / "m");
    ref.finish();
  }
  void refuse(const char* message) const { CHECK_THROWS_WITH_AS(run(), doctest::Contains(message), Error); }
};

}  // namespace

TEST_CASE("a comparison that covers all passes") {
  CHECK_NOTHROW(Attempt{}.run());
  CHECK_NOTHROW(Attempt{.y_error = 1e-11}.run());
}

TEST_CASE("a wrong value, a missing name and a forgotten tensor fail") {
  Attempt{.y_error = 1e-9}.refuse("output.y: found error 7.5e-10, wanted <= 1e-10");
  Attempt{.y_error = std::numeric_limits<double>::quiet_NaN()}.refuse("output.y: found error nan");
  Attempt{.count = 4}.refuse("output.count: found error 0.333, wanted <= 0");
  Attempt{.name = "output.z"}.refuse("output.z: found no such tensor");
  Attempt{.name = "output.z"}.refuse("output.y: found it never compared");
  Attempt{.compare_y = false}.refuse("output.y: found it never compared");
  Attempt{.gradient = false}.refuse("grad.param.m.weight: found it never compared");
  Attempt{.read = false}.refuse("param.m.bias: found it never read");
  Attempt{.name = "output.count"}.refuse("output.count: found shape [2, 2], wanted [1]");
  Attempt{.name = "output.count"}.refuse("output.count: found it compared twice");
}

TEST_CASE("a comparison that is never finished fails" * doctest::should_fail()) {
  Small small;
  auto ref = ReferenceCase::load(small.file());
  ref.compare("output.y", small.y, 0);
}

TEST_CASE("omitted tensors are named, and must be there") {
  Small small;
  auto ref = ReferenceCase::load(small.file());
  CHECK(ref.values<double>("param.m.weight") == small.weight);
  CHECK(ref.values<float>("param.m.bias") == std::vector<float>{5, 6});
  ref.compare("output.y", small.y, 0);
  ref.omit("output.count", "test of omit");
  ref.omit("grad.param.m.weight", "test of omit");
  CHECK_NOTHROW(ref.finish());
  ref.omit("output.z", "not there");
  CHECK_THROWS_AS(ref.finish(), Error);
}

TEST_CASE("values and config come as asked") {
  Small small;
  auto ref = ReferenceCase::load(small.file());
  CHECK(ref.config()["eps"] == 1e-5);
  CHECK_THROWS_AS(ref.config("train"), Error);
  CHECK(ref.values<bool>("input.mask") == std::vector<bool>{true, false, true});
  CHECK(ref.values<std::int32_t>("output.count") == std::vector<std::int32_t>{3});
  CHECK(ref.values<float>("output.count") == std::vector<float>{3});
  CHECK_THROWS_AS(ref.values<std::int32_t>("output.y"), Error);
  CHECK_THROWS_AS(ref.values<float>("output.z"), Error);
}

TEST_CASE("relative error is that of the largest value, and zeros ask for zeros") {
  CHECK(test::relative_error({1, 1000}, {2, 1000}) == 1e-3);
  CHECK(test::relative_error({0, 0}, {0, 0}) == 0);
  CHECK(test::relative_error({1e-300}, {0}) > 1);
  CHECK(test::relative_error({}, {}) == 0);
}

TEST_CASE("every case of the reference opens") {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(K3SPEC_SOURCE_DIR "/tests/data/cases")) {
    CHECK_NOTHROW(ReferenceCase::load(entry.path()).config());
    ++count;
  }
  CHECK(count >= 36);
  CHECK(ReferenceCase::load("cases/eagle3_k3").config()["ttt_steps"] == 4);
  CHECK(ReferenceCase::load("golden/eagle3_tiny").config("train")["steps"] == 20);
}

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <k3spec/core/finite.hpp>
#include <k3spec/core/parameters.hpp>

using namespace k3spec;

namespace {

struct Norm {
  template <class T>
  struct Weights {
    View<T, 5> weight;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "weight", w.weight, Init::ones);
  }
};

/// Two sublayers around a frozen tensor, so that the frozen one must move behind.
struct Model {
  template <class T>
  struct Weights {
    View<T, 7, 3> table;
    Norm::Weights<T> norms[2];
    View<T, 3, 11> head;
    View<T, 3> bias;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "table", w.table, Frozen{Init::normal});
    for (index_t i = 0; i < 2; ++i) Norm::visit(w.norms[i], at / "layers" / i / "norm", v);
    v(at / "head" / "weight", w.head, Init::normal);
    v(at / "bias", w.bias, Init::zeros);
  }
};

/// A router: a weight, and corrections that no storage type may round.
struct Router {
  template <class T>
  struct Weights {
    View<T, 3> before;
    View<full_precision_t<T>, 33> corrections;
    View<T, 5, 7> weight;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "before", w.before, Frozen{Init::ones});
    v(at / "corrections", w.corrections, Frozen{Init::normal});
    v(at / "weight", w.weight, Frozen{Init::normal});
  }
};

static_assert(parameter_count<Router> == 3 + 33 + 35 && trainable_count<Router> == 0);
static_assert(parameter_slots<Router, float> == 32 + 64 + 64 && parameter_slots<Router, double> == 32 + 64 + 64);
static_assert(parameter_slots<Router, bfloat16> == 32 + 96 + 64);  // 33 floats are 66 elements of two bytes
static_assert(std::is_same_v<full_precision_t<bfloat16>, float> && std::is_same_v<full_precision_t<double>, double>);
static_assert(std::is_same_v<full_precision_t<const bfloat16>, const float>);
static_assert(std::is_same_v<full_precision_t<Prepacked<bfloat16>>, const float>);

static_assert(parameter_count<Model> == 21 + 5 + 5 + 33 + 3);
static_assert(trainable_count<Model> == 5 + 5 + 33 + 3);
static_assert(trainable_slots<Model> == 32 + 32 + 64 + 32);
static_assert(parameter_slots<Model> == trainable_slots<Model> + 32);
static_assert(parameter_count<Norm> == 5 && trainable_count<Norm> == 5);

template <class T>
std::vector<T> copy_of(const Parameters<Model, T>& parameters) {
  const T* p = parameters.trainable().data();
  return {p, p + parameter_slots<Model>};
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Fresh values made by `threads` threads.
template <class T>
std::vector<T> initialized(std::uint64_t seed) {
  Parameters<Model, T> parameters;
  parameters.initialize(seed);
  return copy_of(parameters);
}

/// More elements than are drawn at a time, and not a multiple of them.
struct Long {
  template <class T>
  struct Weights {
    View<T, 3, 4097> weight;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "weight", w.weight, Init::normal);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("what is not finite is found, wherever it stands", T, float, double, bfloat16) {
  for (const index_t n : {0, 1, 3, 1023, 1024, 1025, 2500}) {
    std::vector<T> x(static_cast<std::size_t>(n), T(0x1.FEp127F));  // the largest bfloat16
    CHECK(first_not_finite(x.data(), n) == n);
    for (const index_t at : {index_t{0}, n / 2, n - 1}) {
      for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
        if (at < 0 || at >= n) continue;
        x[static_cast<std::size_t>(n - 1)] = x[static_cast<std::size_t>(at)] = T(bad);
        CHECK(first_not_finite(x.data(), n) == at);
        x[static_cast<std::size_t>(n - 1)] = x[static_cast<std::size_t>(at)] = T(0.0F);
      }
    }
  }
  Parameters<Model, T> parameters;
  CHECK_NOTHROW(require_finite<Model>(parameters.weights(), "draft"));
  parameters.mutable_weights().table(2, 1) = T(std::numeric_limits<float>::quiet_NaN());  // a frozen one
  CHECK_THROWS_WITH_AS(require_finite<Model>(parameters.weights(), "draft"),
                       "draft: 'table': element 7: found nan, wanted a finite number", Error);
  Gradients<Model, T> gradients;  // has no frozen ones
  CHECK_NOTHROW(require_finite<Model>(gradients.weights(), "gradient"));
}

TEST_CASE("names are dotted paths in visiting order") {
  std::vector<std::string> names;
  Model::Weights<float> w{};
  Model::visit(w, Path{} / "model", [&](const Path& at, auto&, auto) { names.push_back(at.str()); });
  CHECK(names == std::vector<std::string>{"model.table", "model.layers.0.norm.weight", "model.layers.1.norm.weight",
                                          "model.head.weight", "model.bias"});
  CHECK(Path{}.str().empty());
  CHECK((Path{} / "a").str() == "a");
}

TEST_CASE_TEMPLATE("tensors start aligned, trained ones first, frozen ones last, none overlap", T, float, double,
                   bfloat16) {
  Parameters<Model, T> parameters;
  const auto w = parameters.weights();
  const T* base = parameters.trainable().data();
  CHECK(w.norms[0].weight.data() == base);
  CHECK(w.norms[1].weight.data() == base + 32);
  CHECK(w.head.data() == base + 64);
  CHECK(w.bias.data() == base + 128);
  CHECK(w.table.data() == base + trainable_slots<Model>);
  CHECK(parameters.trainable().size() == trainable_slots<Model>);
  Model::visit(w, Path{}, [](const Path&, auto& view, auto) {
    CHECK(reinterpret_cast<std::uintptr_t>(view.data()) % alignment == 0);
  });
  CHECK(parameters.mutable_weights().head.data() == w.head.data());
}

TEST_CASE_TEMPLATE("a tensor in full precision has its own elements between those of the storage type", T, float,
                   double, bfloat16) {
  Parameters<Router, T> parameters;
  using E = accumulate_t<T>;
  const auto w = parameters.mutable_weights();
  const auto byte = [&](auto* p) {
    return reinterpret_cast<std::byte*>(p) - reinterpret_cast<std::byte*>(w.before.data());
  };
  static_assert(std::is_same_v<decltype(w.corrections.data()), E*>);
  CHECK(byte(w.corrections.data()) == 32 * sizeof(T));
  CHECK(byte(w.weight.data()) >= byte(w.corrections.data() + 33));
  CHECK(byte(w.weight.data() + 35) <= static_cast<std::ptrdiff_t>(sizeof(T)) * parameters.all().size());
  Router::visit(w, Path{}, [](const Path&, auto& view, auto) {
    CHECK(reinterpret_cast<std::uintptr_t>(view.data()) % alignment == 0);
  });
  parameters.initialize(7);
  for (index_t i = 0; i < 33; ++i) {
    CHECK(w.corrections(i) == static_cast<E>(0.02 * Philox(7, 1).normal(static_cast<std::uint64_t>(i))));
  }
  CHECK(static_cast<double>(w.before(2)) == 1);
  CHECK(static_cast<double>(w.weight(0, 0)) != 0);
  // What is copied as elements of T is whole.
  Parameters<Router, T> copy;
  upload(Cpu{}, Vector<const T>(parameters.all()), copy.all());
  CHECK(std::equal(w.corrections.data(), w.corrections.data() + 33, copy.weights().corrections.data()));
}

TEST_CASE_TEMPLATE("gradients mirror the trained part in the accumulation type", T, float, double, bfloat16) {
  Gradients<Model, T> gradients;
  static_assert(std::is_same_v<typename Gradients<Model, T>::value_type, accumulate_t<T>>);
  const auto w = gradients.weights();
  CHECK(gradients.flat().size() == trainable_slots<Model>);
  CHECK(w.table.data() == nullptr);
  CHECK(w.norms[0].weight.data() == gradients.flat().data());
  CHECK(w.head.data() == gradients.flat().data() + 64);
  w.bias(2) = 3;
  w.norms[0].weight(0) = 4;
  gradients.zero();
  for (index_t i = 0; i < gradients.flat().size(); ++i) CHECK(gradients.flat()(i) == 0);
}

TEST_CASE("fresh values are what the layer asks for, and the padding stays zero") {
  Parameters<Model, float> parameters;
  parameters.initialize(11, 0.5);
  const auto w = parameters.weights();
  for (index_t i = 0; i < 5; ++i) CHECK(w.norms[1].weight(i) == 1);
  for (index_t i = 0; i < 3; ++i) CHECK(w.bias(i) == 0);
  for (index_t i = 0; i < 33; ++i) {
    // The head is the fourth tensor: stream 3, whatever was frozen before it.
    CHECK(w.head.data()[i] == static_cast<float>(0.5 * Philox(11, 3).normal(static_cast<std::uint64_t>(i))));
  }
  for (index_t i = 0; i < 21; ++i) {
    CHECK(w.table.data()[i] == static_cast<float>(0.5 * Philox(11, 0).normal(static_cast<std::uint64_t>(i))));
  }
  CHECK(w.table.data()[0] == doctest::Approx(-0.07364785810595521).epsilon(1e-6));
  CHECK(w.head.data()[5] == doctest::Approx(-0.5116913293456792).epsilon(1e-6));
  for (index_t i = 5; i < 32; ++i) CHECK(parameters.trainable()(i) == 0);
  for (index_t i = 64 + 33; i < 128; ++i) CHECK(parameters.trainable()(i) == 0);
}

TEST_CASE_TEMPLATE("fresh values depend on the seed, not on the order in which they are drawn", T, float, double,
                   bfloat16) {
  CHECK(same_bits(initialized<T>(5), initialized<T>(5)));
  CHECK_FALSE(same_bits(initialized<T>(5), initialized<T>(6)));
  Parameters<Long, T> forward, backward;
  forward.initialize(7);
  index_t pieces = 0;
  backward.initialize(7, forward.default_deviation, [&](index_t count, const auto& body) {
    for (index_t i = count - 1; i >= 0; --i) body(i), ++pieces;
  });
  CHECK(pieces == 4);  // of 4096
  const auto f = forward.weights().weight, b = backward.weights().weight;
  CHECK(std::memcmp(f.data(), b.data(), static_cast<std::size_t>(f.size()) * sizeof(T)) == 0);
  CHECK(static_cast<double>(f(2, 4096)) != 0);
}

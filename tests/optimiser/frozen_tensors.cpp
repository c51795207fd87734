// Frozen tensors against a model that has them as layers do that are never trained, and patterns of names.
#include <k3spec/optimiser/frozen_tensors.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <k3spec/optimiser/muon.hpp>

#include <tests/optimiser/odd_model.hpp>

using namespace k3spec;

namespace {

/// Odd sizes, a scalar, matrices of Muon's and of AdamW's.
template <bool Freezes>
struct Mixed {
  template <class T>
  struct Weights {
    View<T, 7, 19> first;
    View<T, 1> gate;
    View<T, 11, 3> middle;
    View<T, 5> norm;
    View<T, 8, 5> embed_tokens;
    View<T, 9, 4> never;
  };
  /// What the patterns below freeze is, with Freezes, not trained at all.
  static constexpr auto init() {
    if constexpr (Freezes) {
      return Frozen{Init::normal};
    } else {
      return Init::normal;
    }
  }
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "first" / "weight", w.first, Init::normal);
    v(at / "gate", w.gate, init());
    v(at / "middle" / "weight", w.middle, init());
    v(at / "norm" / "weight", w.norm, Init::normal);
    v(at / "embed_tokens" / "weight", w.embed_tokens, init());
    v(at / "never" / "weight", w.never, Frozen{Init::normal});
  }
};
const std::vector<std::string> patterns{"gate", "mid*.weight", "embed?tokens*"};

template <class View>
std::vector<unsigned char> bits(const View& view) {
  const auto* begin = reinterpret_cast<const unsigned char*>(view.data());
  return {begin, begin + static_cast<std::size_t>(view.size()) * sizeof(*view.data())};
}

/// Gradients of five steps, of which one is not finite; of what is frozen they are large, or no number at all.
template <class Model, class T>
void draw(Gradients<Model, T>& gradients, std::uint64_t step) {
  test::draw_gradients<Model, T>(gradients, step);
  auto d = gradients.weights();
  if (d.gate.data() != nullptr) {
    d.gate.data()[0] = std::numeric_limits<accumulate_t<T>>::quiet_NaN();
    d.middle(10, 2) = accumulate_t<T>(-1e6);
  }
  if (step == 3) d.norm(4) = std::numeric_limits<accumulate_t<T>>::infinity();
}

/// A run of either optimizer.
template <class Model, class T>
struct Run {
  explicit Run(bool with_muon, const std::vector<std::string>& names = {})
      : frozen(frozen_slots<Model>(names)), use_muon(with_muon) {
    auto w = parameters.mutable_weights();  // the same of both, whatever the order in memory
    std::uint64_t stream = 0;
    Model::visit(w, Path{}, [&](const Path&, auto& view, auto) {
      const Philox random(7, stream++);
      for (index_t i = 0; i < view.size(); ++i) {
        view.data()[i] = static_cast<T>(static_cast<float>(random.normal(static_cast<std::uint64_t>(i))));
      }
    });
    w.middle(0, 0) = static_cast<T>(-0.0F);
    adamw = AdamW<Model, T>({.weight_decay = 0.25, .max_grad_norm = 2}, parameters, frozen);
  }
  auto step(std::uint64_t number) {
    draw(gradients, number);
    if (use_muon) return muon.step(Cpu{2}, 0.02, adamw, parameters, gradients);
    return adamw.step(Cpu{2}, 0.02, parameters, gradients);
  }

  std::vector<SlotRange> frozen;
  bool use_muon;
  Parameters<Model, T> parameters;
  Gradients<Model, T> gradients;
  AdamW<Model, T> adamw{{}, parameters};
  Muon<Model, T> muon{Cpu{}, {}, frozen};
};

}  // namespace

TEST_CASE_TEMPLATE("frozen tensors keep their bits, and the others are trained as if these were no parameters", T,
                   double, float, bfloat16) {
  for (const bool with_muon : {false, true}) {
    CAPTURE(with_muon);
    Run<Mixed<false>, T> found(with_muon, patterns);
    Run<Mixed<true>, T> wanted(with_muon);
    const Run<Mixed<false>, T> before(with_muon);
    for (std::uint64_t number = 0; number < 5; ++number) {
      CAPTURE(number);
      const auto a = found.step(number);
      const auto b = wanted.step(number);
      CHECK(a.skipped == (number == 3));
      CHECK(b.skipped == a.skipped);
      // Over the same numbers, but in blocks that begin elsewhere.
      if (!a.skipped) CHECK(a.grad_norm == doctest::Approx(b.grad_norm).epsilon(1e-14));
    }
    const auto w = found.parameters.weights(), old = before.parameters.weights();
    const auto other = wanted.parameters.weights();
    CHECK(bits(w.gate) == bits(old.gate));
    CHECK(bits(w.middle) == bits(old.middle));
    CHECK(bits(w.embed_tokens) == bits(old.embed_tokens));
    CHECK(bits(w.never) == bits(old.never));
    const auto near = [](const auto& x, const auto& y) {
      for (index_t i = 0; i < x.size(); ++i) {
        REQUIRE(static_cast<double>(static_cast<float>(x.data()[i])) ==
                doctest::Approx(static_cast<double>(static_cast<float>(y.data()[i]))).epsilon(1e-5));
      }
    };
    near(w.first, other.first), near(w.norm, other.norm);
    CHECK(bits(w.first) != bits(old.first));
    CHECK(bits(w.norm) != bits(old.norm));
    const auto zero = [](const auto& view) {
      for (index_t i = 0; i < view.size(); ++i) REQUIRE(view.data()[i] == 0);
    };
    for (const auto& m : {found.adamw.first_moments(), found.adamw.second_moments()}) {
      zero(m.gate), zero(m.middle), zero(m.embed_tokens);
    }
    if constexpr (std::is_same_v<T, bfloat16>) {
      for (index_t i = 0; i < w.middle.size(); ++i) {
        REQUIRE(found.adamw.masters().middle.data()[i] == static_cast<float>(w.middle.data()[i]));
      }
    }
  }
}

TEST_CASE("without patterns nothing is frozen") {
  CHECK(frozen_slots<Mixed<false>>({}).empty());
  const auto ranges = frozen_slots<Mixed<false>>({"*.weight", "norm.weight"});
  REQUIRE(ranges.size() == 4);  // one for each tensor, whichever patterns name it; a gate is left
  CHECK(ranges[0].first == 0);
  CHECK(ranges[0].last == 7 * 19 + 27);  // the next start is a multiple of 32 elements
  CHECK(ranges[1].first == ranges[0].last + 32);
}

TEST_CASE("a pattern fits whole names, and is otherwise so many characters away") {
  for (const char* pattern : {"fc.weight", "*", "fc*", "*weight", "f?.w*t", "**c.*", "?????????"}) {
    CAPTURE(pattern);
    CHECK(pattern_distance(pattern, "fc.weight") == 0);
  }
  CHECK(pattern_distance("", "") == 0);
  CHECK(pattern_distance("*", "") == 0);
  CHECK(pattern_distance("?", "") == 1);
  CHECK(pattern_distance("", "abc") == 3);
  CHECK(pattern_distance("fc", "fc.weight") == 7);
  CHECK(pattern_distance("weight", "fc.weight") == 3);
  CHECK(pattern_distance("f*d", "fc.weight") == 1);
  CHECK(pattern_distance("kitten", "sitting") == 3);
  CHECK(pattern_distance("[f]c.weight", "fc.weight") == 2);  // no class of characters
}

TEST_CASE("patterns that freeze nothing, or all, are refused") {
  const auto refused = [](const std::vector<std::string>& given) -> std::string {
    try {
      frozen_slots<Mixed<false>>(given);
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing";
  };
  CHECK(refused({"gate", "midle.*"}) ==
        "freeze: found 'midle.*', no tensor's name, wanted the name of a trained tensor, or * and ? in it; near are "
        "'middle.weight', 'first.weight', 'norm.weight'");
  CHECK(
      refused({"never*"}).starts_with("freeze: found 'never*', only tensors that are never trained, wanted the name"));
  CHECK(refused({""}).starts_with("freeze: found '', no tensor's name, wanted "));
  CHECK(refused({"*"}) == "freeze: found patterns of all trained tensors, wanted one to train");
  CHECK(refused({"*.weight", "gate"}) == "freeze: found patterns of all trained tensors, wanted one to train");
  CHECK(refused({"never.weight", "*"}).starts_with("freeze: found 'never.weight', only tensors"));
}

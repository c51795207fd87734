#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <set>

#include <k3spec/io/load_parameters.hpp>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using namespace k3spec::io;
using test::TemporaryDirectory;

namespace {

struct Part {
  template <class T>
  struct Weights {
    View<T, 3, 2> weight;
    View<T, 4, 1, 2> conv;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "weight", w.weight, Init::normal);
    v(at / "conv1d" / "weight", w.conv, Init::normal);
  }
};

struct Model {
  template <class T>
  struct Weights {
    Part::Weights<T> parts[2];
    View<T, 5> norm;
    View<T, 2, 2> frozen;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    for (index_t i = 0; i < 2; ++i) Part::visit(w.parts[i], at / "layers" / i, v);
    v(at / "norm", w.norm, Init::ones);
    v(at / "frozen", w.frozen, Frozen{Init::normal});
  }
};

/// What a checkpoint keeps in F32 beside a weight in BF16.
struct Corrections {
  template <class T>
  struct Weights {
    View<T, 3, 3> weight;
    View<full_precision_t<T>, 247> bias;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "weight", w.weight, Frozen{Init::normal});
    v(at / "bias", w.bias, Frozen{Init::zeros});
  }
};

struct Saved : TemporaryDirectory {
  Parameters<Model, double> model;
  std::vector<TensorSource> tensors;

  Saved() {
    model.initialize(3);
    auto weights = model.weights();
    tensors = sources<Model>(weights);
    save();
  }
  void save() const { write_safetensors(*this / "model.safetensors", tensors); }
  TensorSource& tensor(const std::string& name) {
    return *std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  }
  ModelTensors open() const { return ModelTensors::open(path()); }

  /// Loading must say this and leave every parameter as it was.
  void refuse(const char* message) const {
    save();
    Parameters<Model, float> loaded;
    auto weights = loaded.mutable_weights();
    CHECK_THROWS_WITH_AS(load_parameters(open(), slots<Model>(weights)), doctest::Contains(message), Error);
    Model::visit(weights, Path{}, [](const Path&, auto& view, auto) {
      CHECK(std::all_of(view.data(), view.data() + view.size(), [](float x) { return x == 0; }));
    });
  }
};

}  // namespace

TEST_CASE("slots have the names and shapes that visit gives") {
  Parameters<Model, float> model;
  auto weights = model.mutable_weights();
  const auto list = slots<Model>(weights);
  REQUIRE(list.size() == 6);
  CHECK(list[0].name == "layers.0.weight");
  CHECK(list[3].name == "layers.1.conv1d.weight");
  CHECK(list[3].shape == std::vector<index_t>{4, 1, 2});
  CHECK(list[3].data == weights.parts[1].conv.data());
  CHECK(list[5].dtype == DType::F32);
  CHECK(slots<Model>(weights, Path{} / "model").front().name == "model.layers.0.weight");
}

TEST_CASE("a model saved and loaded is the same, and rounded once in a narrower type") {
  const Saved saved;
  Parameters<Model, double> same;
  Parameters<Model, bfloat16> narrow;
  auto same_weights = same.mutable_weights();
  auto narrow_weights = narrow.mutable_weights();
  load_parameters(saved.open(), slots<Model>(same_weights));
  load_parameters(saved.open(), slots<Model>(narrow_weights));
  const auto a = saved.model.trainable(), b = std::as_const(same).trainable();
  CHECK(std::equal(a.data(), a.data() + a.size(), b.data()));
  CHECK(same_weights.frozen(1, 1) == saved.model.weights().frozen(1, 1));
  CHECK(narrow_weights.frozen(1, 1).bits == to_bfloat16(saved.model.weights().frozen(1, 1)).bits);
}

TEST_CASE("what is kept in F32 stays so in a bfloat16 model: 247 numbers near 7 stay 247, from file to file") {
  TemporaryDirectory folder;
  std::vector<float> numbers;
  for (int i = 0; i < 247; ++i) numbers.push_back(7 + 0.001F * static_cast<float>(i));
  const std::vector<bfloat16> weight(9, bfloat16(0.5F)), rounded(numbers.begin(), numbers.end());
  const auto load = [&](const TensorSource& bias) {
    write_safetensors(folder / "in.safetensors", {source("weight", View<const bfloat16, 3, 3>(weight.data())), bias});
    auto parameters = std::make_unique<Parameters<Corrections, bfloat16>>();
    auto w = parameters->mutable_weights();
    load_parameters(ModelTensors::open(folder / "in.safetensors"), slots<Corrections>(w));
    return parameters;
  };
  const auto stored = load(source("bias", View<const float, 247>(numbers.data())));
  auto w = stored->mutable_weights();
  CHECK(std::equal(numbers.begin(), numbers.end(), w.bias.data()));
  CHECK(slots<Corrections>(w)[0].dtype == DType::BF16);
  CHECK(slots<Corrections>(w)[1].dtype == DType::F32);

  write_safetensors(folder / "out.safetensors", sources<Corrections>(w));
  const auto written = SafetensorsFile::open(folder / "out.safetensors");
  CHECK(written.dtype("bias") == DType::F32);
  CHECK(written.dtype("weight") == DType::BF16);
  CHECK(written.read<float>("bias") == numbers);

  // A file that has rounded them is taken as it is.
  const auto narrow = load(source("bias", View<const bfloat16, 247>(rounded.data())));
  const auto* bias = narrow->weights().bias.data();
  CHECK(std::equal(rounded.begin(), rounded.end(), bias));
  CHECK(std::set<float>(bias, bias + 247).size() == 9);
}

TEST_CASE("a checkpoint that does not fit the model is refused before a parameter changes") {
  Saved saved;
  const double numbers[10] = {};
  const std::int64_t ids[4] = {};
  SUBCASE("a tensor is absent") {
    saved.tensors.pop_back();
    saved.refuse("'frozen': found no such tensor, wanted F32 [2, 2]");
  }
  SUBCASE("the model has no place for a tensor") {
    saved.tensors.push_back(source("extra", View<const double, 2>(numbers)));
    saved.refuse("'extra': found a tensor the model has no place for");
  }
  SUBCASE("a shape is another") {
    saved.tensor("norm").shape = {4};
    saved.refuse("'norm': shape: found [4], wanted [5]");
  }
  SUBCASE("a rank is another") {
    saved.tensor("layers.1.conv1d.weight").shape = {4, 2};
    saved.refuse("'layers.1.conv1d.weight': shape: found [4, 2], wanted [4, 1, 2]");
  }
  SUBCASE("an element type does not convert") {
    saved.tensor("frozen") = source("frozen", View<const std::int64_t, 2, 2>(ids));
    saved.refuse("'frozen': element type: found I64, wanted one that converts to F32");
  }
}

TEST_CASE("a model with two slots of one name is refused before a parameter changes") {
  const Saved saved;
  Parameters<Model, float> loaded;
  auto weights = loaded.mutable_weights();
  auto list = slots<Model>(weights);
  list.push_back(list.front());
  list.back().data = weights.parts[1].weight.data();
  CHECK_THROWS_WITH_AS(load_parameters(saved.open(), list),
                       "model: 'layers.0.weight': found two slots, wanted one for each name", Error);
  CHECK(std::all_of(loaded.all().data(), loaded.all().data() + loaded.all().size(), [](float x) { return x == 0; }));
}

TEST_CASE("known tensors may stay unread, padded ones are cut") {
  Saved saved;
  const std::int64_t d2t[3] = {0, 4, 9};
  std::vector<double> padded(8);
  std::iota(padded.begin(), padded.end(), 1.0);
  saved.tensors.push_back(source("d2t", View<const std::int64_t, 3>(d2t)));
  saved.tensor("norm") = source("norm", View<const double, 8>(padded.data()));
  saved.save();
  Parameters<Model, float> loaded;
  auto weights = loaded.mutable_weights();
  const auto list = slots<Model>(weights);
  CHECK_THROWS_WITH_AS(load_parameters(saved.open(), list, {.known = named({"d2t"}), .padded = named({})}),
                       doctest::Contains("found [8], wanted [5]"), Error);
  load_parameters(saved.open(), list, {.known = named({"d2t"}), .padded = named({"norm"})});
  CHECK(weights.norm(4) == 5.0F);
  CHECK(weights.frozen(0, 0) == static_cast<float>(saved.model.weights().frozen(0, 0)));

  padded.resize(4);
  saved.tensor("norm") = source("norm", View<const double, 4>(padded.data()));
  saved.save();
  CHECK_THROWS_WITH_AS(load_parameters(saved.open(), list, {.known = named({"d2t"}), .padded = named({"norm"})}),
                       doctest::Contains("found [4], wanted [5]"), Error);
}

TEST_CASE("MXFP4 experts and padded decays of k3-tiny fill plain slots") {
  const auto checkpoint = ModelTensors::open(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny", "language_model.");
  CHECK(checkpoint.contains("model.norm.weight"));
  const std::string name = "model.layers.3.block_sparse_moe.experts.5.w2.weight";
  std::vector<float> expert(64 * 64), decay(4);
  LoadOptions options{.known = [](std::string_view) { return true; },
                      .padded = [](std::string_view n) { return n.ends_with("A_log"); }};
  std::vector<TensorSlot> list{{name, DType::F32, {64, 64}, expert.data()},
                               {"model.layers.0.self_attn.A_log", DType::F32, {4}, decay.data()}};
  load_parameters(checkpoint, list, options);
  const auto packed = checkpoint.read<std::uint8_t>(name + "_packed"),
             scale = checkpoint.read<std::uint8_t>(name + "_scale");
  CHECK(expert[64 * 7 + 40] == mxfp4_value(packed[32 * 7 + 20] & 15U) * mxfp4_scale(scale[2 * 7 + 1]));
  CHECK(expert[64 * 7 + 41] == mxfp4_value(packed[32 * 7 + 20] >> 4U) * mxfp4_scale(scale[2 * 7 + 1]));
  CHECK(decay == [&] {
    auto stored = checkpoint.read<float>("model.layers.0.self_attn.A_log");
    stored.resize(4);
    return stored;
  }());

  const auto refuse = [&](std::vector<index_t> shape, DType dtype, const char* message) {
    list[0].shape = std::move(shape);
    list[0].dtype = dtype;
    CHECK_THROWS_WITH_AS(load_parameters(checkpoint, list, options), doctest::Contains(message), Error);
  };
  refuse({64, 32}, DType::F32, "weight_packed': shape: found [64, 32], wanted [64, 16]");
  refuse({64, 48}, DType::F32, "found MXFP4, wanted another format for F32 [64, 48]");
  refuse({4096}, DType::F32, "found MXFP4");
  refuse({64, 64}, DType::I64, "found MXFP4");
}

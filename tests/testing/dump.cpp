// Dumps: what is read, under which names, and what is refused.
#include <doctest/doctest.h>

#include <tests/support/temporary.hpp>
#include <k3spec/testing.hpp>

using namespace k3spec;
using testing::Dump;

namespace {

/// Two linear layers as somebody else named them, and tensors of every kind.
class Written {
 public:
  explicit Written(const std::string& prefix = "") {
    io::write_safetensors(directory_ / "model.safetensors",
                          {{prefix + "param.fc1.weight", DType::F64, {2, 3}, six},
                           {prefix + "param.fc2.weight", DType::F32, {3, 2}, floats},
                           {prefix + "grad.param.fc1.weight", DType::BF16, {2, 3}, brains},
                           {prefix + "half", DType::F16, {3}, halves},
                           {prefix + "ids", DType::I32, {2}, ids},
                           {prefix + "mask", DType::BOOL, {3}, mask},
                           {prefix + "number", DType::F64, {}, six},
                           {prefix + "none", DType::F32, {0, 4}, nullptr}});
  }
  std::filesystem::path file() const { return directory_ / "model.safetensors"; }
  std::filesystem::path folder() const { return directory_.path(); }

  static constexpr double six[] = {1, 2, 3, 4, 5, 0.1};
  static constexpr float floats[] = {10, 20, 30, 40, 50, 0.1F};
  static constexpr std::uint16_t brains[] = {0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0xc0c0};  // 1, 2, 3, 4, 5, -6
  static constexpr std::uint16_t halves[] = {0x3c00, 0xc000, 0x3555};                          // 1, -2, 0.333251953125
  static constexpr std::int32_t ids[] = {7, -1};
  static constexpr std::uint8_t mask[] = {1, 0, 1};

 private:
  test::TemporaryDirectory directory_;
};

struct Two {
  template <class T>
  struct Weights {
    typename Linear<3, 2>::Weights<T> up;
    typename Linear<2, 3>::Weights<T> down;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    Linear<3, 2>::visit(w.up, at / "up", v);
    Linear<2, 3>::visit(w.down, at / "down", v);
  }
};
const testing::NameMap two_names{"", {{"fc1", "up"}, {"fc2", "down"}}};

}  // namespace

TEST_CASE("dump: tensors of any type are read, with their shapes") {
  const Written written;
  for (const auto& path : {written.file(), written.folder()}) {
    const Dump dump(path);
    CHECK(dump.names().size() == 8);
    CHECK(dump.shape("param.fc1.weight") == std::vector<index_t>{2, 3});
    CHECK(dump.dtype("half") == DType::F16);
    const auto w = dump.read<double>("param.fc1.weight");
    CHECK(w.values == std::vector<double>(std::begin(Written::six), std::end(Written::six)));
    CHECK(w.rows() == 2);
    CHECK(w.columns() == 3);
    CHECK(dump.read<float>("param.fc1.weight").values[5] == 0.1F);
    CHECK(dump.read<double>("grad.param.fc1.weight").values == std::vector<double>{1, 2, 3, 4, 5, -6});
    CHECK(dump.read<bfloat16>("grad.param.fc1.weight").values[5].bits == 0xc0c0);
    CHECK(dump.read<double>("half").values == std::vector<double>{1, -2, 0.333251953125});
    CHECK(dump.read<index_t>("ids").values == std::vector<index_t>{7, -1});
    CHECK(dump.read<std::uint8_t>("mask").values == std::vector<std::uint8_t>{1, 0, 1});
    CHECK(dump.numbers("mask").values == std::vector<double>{1, 0, 1});
    CHECK(dump.numbers("ids").values == std::vector<double>{7, -1});
    CHECK(dump.read<double>("number").values == std::vector<double>{1});
    CHECK(dump.read<double>("number").rows() == 1);
    CHECK(dump.read<double>("none").values.empty());
    const auto none = dump.read<double>("none");
    CHECK(none.as_rows<4>().extent(0) == 0);
    CHECK_THROWS_WITH_AS(dump.read<double>("ids"), doctest::Contains("wanted one that converts to F64"), Error);
  }
}

TEST_CASE("dump: views of what was read") {
  const Written written;
  const Dump dump(written.file());
  auto w = dump.read<double>("param.fc1.weight");
  CHECK(w.as_rows<3>()(1, 2) == 0.1);
  CHECK(w.as<2, 3>()(1, 0) == 4);
  CHECK(w.as<dyn, 3>()(1, 1) == 5);
  CHECK(std::as_const(w).as<dyn, dyn>()(0, 2) == 3);
  CHECK_THROWS_WITH_AS(w.as_rows<2>(), "'param.fc1.weight': shape: found [2, 3], wanted a last extent of 2", Error);
  CHECK_THROWS_WITH_AS((w.as<dyn, 2>()), "'param.fc1.weight': shape: found [2, 3], wanted [any, 2]", Error);
  CHECK_THROWS_WITH_AS(w.as<dyn>(), "'param.fc1.weight': shape: found [2, 3], wanted [any]", Error);
  const auto blank = testing::like(w);
  CHECK(blank.shape == w.shape);
  CHECK(blank.values.size() == 6);
  CHECK(std::isnan(blank.values[5]));
  CHECK(testing::like(w, 0.0).values == std::vector<double>(6, 0.0));
  std::vector<double> into(6);
  dump.read_into("param.fc1.weight", View<double, 2, 3>(into.data()));
  CHECK(into[5] == 0.1);
  CHECK_THROWS_WITH_AS(dump.read_into("param.fc1.weight", View<double, 3, 2>(into.data())),
                       doctest::Contains("'param.fc1.weight': shape: found [2, 3], wanted [3, 2]"), Error);
}

TEST_CASE("dump: a name that is absent is told with those near it") {
  const Written written;
  const Dump dump(written.file());
  CHECK_THROWS_WITH_AS(dump.read<double>("param.fc.weight"),
                       (written.file().string() + ": 'param.fc.weight': found no such tensor, wanted one of this name; "
                                                  "near it are 'param.fc1.weight', 'param.fc2.weight', "
                                                  "'grad.param.fc1.weight'")
                           .c_str(),
                       Error);
  CHECK(testing::edit_distance("", "abc") == 3);
  CHECK(testing::edit_distance("abc", "abc") == 0);
  CHECK(testing::edit_distance("kitten", "sitting") == 3);
  CHECK(testing::near_names("b", {"ccc", "bb", "a"}, 2) == std::vector<std::string>{"bb", "a"});
  CHECK(testing::near_names("b", {}).empty());
  test::TemporaryDirectory directory;
  io::write_safetensors(directory / "empty.safetensors", {});
  CHECK_THROWS_WITH_AS(Dump(directory / "empty.safetensors").read<double>("x"), doctest::Contains("no tensor at all"),
                       Error);
}

TEST_CASE("dump: names are mapped part by part, all at once") {
  const testing::NameMap names{"model.", {{"a", "b"}, {"b", "a"}, {"mlp.fc1", "up"}, {"inner", ""}}};
  CHECK(names("model.a.b.weight") == "b.a.weight");
  CHECK(names("a.aa.ab") == "b.aa.ab");
  CHECK(names("model.model.x") == "model.x");
  CHECK(names("x.model.y") == "x.model.y");
  CHECK(names("mlp.fc1.weight") == "up.weight");
  CHECK(names("mlp.fc10.weight") == "mlp.fc10.weight");
  CHECK(names("x.inner.y") == "x.y");
  CHECK(names("inner") == "");
  const Written written("model.");
  const Dump dump(written.file(), {"model.", two_names.renamed});
  CHECK(dump.contains("param.up.weight"));
  CHECK(dump.contains("grad.param.up.weight"));
  CHECK(!dump.contains("model.param.fc1.weight"));
  CHECK(dump.stored_name("mask") == "model.mask");
  CHECK(dump.read<double>("param.up.weight").name == "param.up.weight");
  CHECK_THROWS_WITH_AS(Dump(written.file(), {"", {{"fc3", "up"}}}),
                       doctest::Contains("renamed 'fc3': found no tensor with it in its name"), Error);
  CHECK_THROWS_WITH_AS(Dump(written.file(), {"", {{"fc1", "fc"}, {"fc2", "fc"}}}),
                       doctest::Contains("wanted one tensor of this name"), Error);
}

TEST_CASE("dump: a model's parameters are loaded, all of them or none") {
  const Written written;
  Parameters<Two, float> parameters;
  Dump(written.file(), two_names).load(parameters);
  const auto w = parameters.weights();
  CHECK(w.up.weight(1, 1) == 5);
  CHECK(w.up.weight(1, 2) == 0.1F);
  CHECK(w.down.weight(2, 0) == 50);

  Parameters<Two, float> untouched;
  CHECK_THROWS_WITH_AS(Dump(written.file()).load(untouched),
                       doctest::Contains("'param.up.weight': found no such tensor, wanted one of this name; near it"),
                       Error);
  Parameters<Linear<2, 2>, float> other;
  CHECK_THROWS_WITH_AS(Dump(written.file()).load(other, "param.fc1."),
                       doctest::Contains("shape: found [2, 3], wanted [2, 2]"), Error);
  Parameters<Linear<3, 2>, float> one;
  CHECK_THROWS_WITH_AS(Dump(written.file(), {"", {{"fc1", ""}}}).load(one),
                       doctest::Contains("'param.fc2.weight': found a tensor the model has no place for"), Error);
  CHECK(one.weights().weight(0, 0) == 0);
  Dump(written.file()).load(one, "param.fc1.");
  CHECK(one.weights().weight(1, 1) == 5);
}

TEST_CASE("report: a dump's tensors beside a layer's, and what was forgotten") {
  const Written written;
  const Dump dump(written.file(), two_names);
  Parameters<Two, double> parameters;
  dump.load(parameters);
  testing::Report report;
  report.compare_all<Two>(dump, "param.", parameters.weights());
  CHECK(report.rows().size() == 2);
  CHECK_MESSAGE(report.ok(), report.text());
  parameters.mutable_weights().down.weight(2, 1) = 1;
  CHECK(!report.compare(dump, "param.down.weight", parameters.weights().down.weight).ok);
  CHECK(report.rows().back().first_bad == std::vector<index_t>{2, 1});

  // A dump in bfloat16 beside floats, off by half of its last digit and by a whole one.
  const std::vector<float> found{1, 2, 3, 4, 5, -6 - 0x1p-6F};
  const View<const float, 2, 3> view(found.data());
  const testing::Row rounded = report.compare(dump, "grad.param.up.weight", view, {0x1p-8, 0});
  CHECK(rounded.ok);
  CHECK(rounded.ulps == 0);
  CHECK(rounded.ulp_type == DType::BF16);
  CHECK(rounded.max_abs == 0x1p-6);
  const std::vector<float> further{1, 2, 3, 4, 5, -6 - 0x1p-5F};
  CHECK(report.compare(dump, "grad.param.up.weight", std::span<const float>(further)).ulps == 1);

  CHECK(report.compare(dump, "mask", testing::Tensor<index_t>{"", {3}, {1, 0, 1}}).ok);
  const testing::Row lost = report.compare(dump, "grad.param.up", view);
  CHECK(!lost.ok);
  CHECK(lost.note.find("near it are 'grad.param.up.weight'") != std::string::npos);

  testing::Report forgetful;
  forgetful.add(testing::compare("half", dump.numbers("half"), dump.numbers("half")));
  forgetful.require_all(dump, {"output."});
  CHECK(forgetful.ok());
  forgetful.require_all(dump);
  CHECK(forgetful.rows().size() == 2);
  CHECK(forgetful.rows().back().name == "grad.param.up.weight");
  CHECK(forgetful.rows().back().note == "never compared");
  CHECK(!forgetful.ok());
}

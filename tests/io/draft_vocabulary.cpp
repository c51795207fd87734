#include <k3spec/io/draft_vocabulary.hpp>

#include <doctest/doctest.h>

#include <limits>
#include <utility>

#include <k3spec/config/kimi_k3.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>
#include <k3spec/io/draft_checkpoint.hpp>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using Ids = std::vector<index_t>;

namespace {

Ids ids_of(const DraftVocabulary& v) { return {v.target_ids().data(), v.target_ids().data() + v.draft_size()}; }

/// A draft with nothing but what a vocabulary needs.
struct Draft {
  static constexpr index_t draft_vocabulary = 3, vocabulary = 6;
  template <class T>
  struct Weights {
    View<T, 3, 2> head;
    View<T, 6, 2> embed;
  };
  template <class W, class V>
  static constexpr void visit(W& w, const Path& at, V&& v) {
    v(at / "embed", w.embed, Frozen{Init::normal});
    v(at / "head", w.head, Init::normal);
  }
};

/// A file with these d2t and t2d.
struct Maps : test::TemporaryDirectory {
  std::vector<std::int64_t> d2t{0, 2, 3};
  bool t2d[6] = {true, false, false, true, false, true};

  DraftVocabulary read(index_t draft = 3, index_t vocab = 6) const {
    io::write_safetensors(*this / "model.safetensors",
                          {io::source("d2t", Vector<const std::int64_t>(d2t.data(), static_cast<index_t>(d2t.size()))),
                           io::source("t2d", View<const bool, 6>(t2d))});
    return DraftVocabulary::read(io::ModelTensors::open(path()), draft, vocab);
  }
  void refuse(const char* message) const { CHECK_THROWS_WITH_AS(read(), doctest::Contains(message), Error); }
};

}  // namespace

TEST_CASE("the most frequent tokens, lower ids first where they tie, in ascending order") {
  const std::vector<std::int64_t> counts{5, 0, 9, 5, 5, 7};
  const auto v = DraftVocabulary::most_frequent(counts, 4);
  CHECK(ids_of(v) == Ids{0, 2, 3, 5});
  CHECK(v.d2t()(0) == 0);
  CHECK(v.d2t()(3) == 2);
  CHECK(v.contains(3));
  CHECK_FALSE(v.contains(4));
  CHECK(v.sources().size() == 2);
  CHECK(ids_of(DraftVocabulary::most_frequent(counts, 1)) == Ids{2});
  const auto all = DraftVocabulary::most_frequent(counts, 6);
  CHECK(all.is_whole());
  CHECK(all.sources().empty());
  CHECK_THROWS_WITH_AS(DraftVocabulary::most_frequent(counts, 7), "draft vocabulary: size: found 7, wanted 1 to 6",
                       Error);
  CHECK_THROWS_AS(DraftVocabulary::most_frequent(counts, 0), Error);
  CHECK_THROWS_AS(DraftVocabulary::most_frequent({}, 0), Error);
}

TEST_CASE("tokens are counted, and those out of range refused") {
  std::vector<std::int64_t> counts(4);
  const std::vector<std::uint8_t> bytes{3, 0, 3};
  count_tokens<std::uint8_t>(bytes, counts);
  count_tokens<std::uint8_t>(bytes, counts);
  CHECK(counts == std::vector<std::int64_t>{2, 0, 0, 4});
  CHECK_THROWS_WITH_AS(count_tokens<index_t>(Ids{4}, counts), "token: found 4, wanted 0 to 3", Error);
  CHECK_THROWS_AS(count_tokens<index_t>(Ids{-1}, counts), Error);
}

TEST_CASE("duplicates and ids out of range are refused") {
  CHECK_THROWS_WITH_AS(DraftVocabulary(Ids{1, 4, 1}, 6),
                       "draft vocabulary: id 2: found token 1 again, wanted each token once", Error);
  CHECK_THROWS_WITH_AS(DraftVocabulary(Ids{1, 6}, 6), "draft vocabulary: id 1: found token 6, wanted 0 to 5", Error);
  CHECK_THROWS_AS(DraftVocabulary(Ids{-1}, 6), Error);
  CHECK_THROWS_AS(DraftVocabulary(Ids{}, 6), Error);
  CHECK_THROWS_AS(DraftVocabulary(Ids{0, 1, 2}, 2), Error);
}

TEST_CASE("a checkpoint's map is read as it is") {
  Maps maps;
  CHECK(ids_of(maps.read()) == Ids{0, 3, 5});
  maps.d2t = {5, -1, 1};
  CHECK(ids_of(maps.read()) == Ids{5, 0, 3});  // any order
  maps.d2t = {0, 2, 2};
  maps.refuse("t2d'[4]: found false, wanted what d2t says");
  maps.d2t = {0, 2, 1};
  maps.refuse("draft vocabulary: id 2: found token 3 again");
  maps.d2t = {0, 2, 4};
  maps.refuse("'d2t'[2]: found offset 4, wanted -2 to 3");
  maps.d2t = {0, 2, std::numeric_limits<std::int64_t>::max()};
  maps.refuse("'d2t'[2]: found offset 9223372036854775807");
  maps.d2t = {0, 2};
  maps.refuse("'d2t': found I64 [2], wanted I64 [3]");
  maps.d2t = {0, 2, 3};
  CHECK_THROWS_WITH_AS(maps.read(3, 7), doctest::Contains("'t2d': found BOOL [6], wanted BOOL [7]"), Error);
}

TEST_CASE("either half of a map needs the other, in its own type") {
  const std::vector<std::int64_t> d2t{0, 2, 3};
  const std::vector<std::int32_t> narrow{0, 2, 3};
  const bool t2d[6] = {true, false, false, true, false, true};
  const std::uint8_t bytes[6] = {1, 0, 0, 1, 0, 1};
  const auto refuse = [](const std::vector<io::TensorSource>& tensors, index_t draft, const char* message) {
    const test::TemporaryDirectory directory;
    io::write_safetensors(directory / "model.safetensors", tensors);
    const auto checkpoint = io::ModelTensors::open(directory.path());
    CHECK_THROWS_WITH_AS(DraftVocabulary::read(checkpoint, draft, 6), doctest::Contains(message), Error);
  };
  const auto offsets = io::source("d2t", Vector<const std::int64_t>(d2t.data(), 3));
  const auto flags = io::source("t2d", View<const bool, 6>(t2d));
  refuse({offsets}, 3, "'t2d': found no such tensor");
  refuse({flags}, 3, "'d2t': found no such tensor");
  refuse({flags}, 6, "'d2t': found no such tensor");  // nor is half a map the whole vocabulary's
  refuse({io::source("d2t", Vector<const std::int32_t>(narrow.data(), 3)), flags}, 3,
         "'d2t': found I32 [3], wanted I64 [3]");
  refuse({offsets, io::source("t2d", View<const std::uint8_t, 6>(bytes))}, 3, "'t2d': found U8 [6], wanted BOOL [6]");
}

TEST_CASE("t2d must have the draft's tokens and no others") {
  Maps maps;
  maps.t2d[1] = true;
  maps.refuse("'t2d'[1]: found true, wanted what d2t says");
  maps.t2d[1] = maps.t2d[5] = false;
  maps.refuse("'t2d'[5]: found false, wanted what d2t says");
  maps.t2d[5] = true;
  maps.d2t[0] = -1;
  maps.refuse("'d2t'[0]: found offset -1, wanted 0 to 5");
}

TEST_CASE("a vocabulary made of counts is written and read back, and is what it was however often") {
  const std::vector<std::int64_t> counts{4, 9, 9, 0, 1, 9, 4};
  const auto made = DraftVocabulary::most_frequent(counts, 4);
  CHECK(ids_of(made) == Ids{0, 1, 2, 5});
  const test::TemporaryDirectory a, b;
  io::write_safetensors(a / "model.safetensors", made.sources());
  const auto read = DraftVocabulary::read(io::ModelTensors::open(a.path()), 4, 7);
  CHECK(ids_of(read) == ids_of(made));
  for (index_t i = 0; i < 4; ++i) CHECK(read.target_id(i) == i + read.d2t()(i));
  for (index_t t = 0; t < 7; ++t) CHECK(read.contains(t) == (t == 0 || t == 1 || t == 2 || t == 5));
  io::write_safetensors(b / "model.safetensors", read.sources());
  CHECK(test::contents(a / "model.safetensors") == test::contents(b / "model.safetensors"));
}

TEST_CASE("a draft goes to disk and comes back, map and frozen tensors included") {
  const test::TemporaryDirectory directory;
  Parameters<Draft, float> parameters, loaded;
  parameters.initialize(7);
  save_draft(directory.path(), parameters, DraftVocabulary(Ids{1, 2, 5}, 6), {{"model_type", "test"}});
  CHECK(ids_of(load_draft(directory.path(), loaded)) == Ids{1, 2, 5});
  const auto a = parameters.weights(), b = loaded.weights();
  CHECK(std::equal(a.head.data(), a.head.data() + 6, b.head.data()));
  CHECK(std::equal(a.embed.data(), a.embed.data() + 12, b.embed.data()));
  CHECK(test::contents(directory / "config.json") == "{\n  \"model_type\": \"test\"\n}\n");
}

TEST_CASE("another draft's vocabulary is refused, and what stood there stays") {
  const test::TemporaryDirectory directory;
  Parameters<Draft, float> parameters;
  parameters.initialize(7);
  save_draft(directory.path(), parameters, DraftVocabulary(Ids{1, 2, 5}, 6), {{"model_type", "test"}});
  const auto weights = test::contents(directory / "model.safetensors"),
             config = test::contents(directory / "config.json");
  parameters.initialize(8);
  const auto refuse = [&](const DraftVocabulary& other, const char* message) {
    CHECK_THROWS_WITH_AS(save_draft(directory.path(), parameters, other, {{"model_type", "other"}}), message, Error);
    CHECK(test::contents(directory / "model.safetensors") == weights);
    CHECK(test::contents(directory / "config.json") == config);
  };
  refuse(DraftVocabulary::whole(6), "draft vocabulary: sizes: found 6 of 6 tokens, wanted 3 of 6, the draft's");
  refuse(DraftVocabulary::whole(3), "draft vocabulary: sizes: found 3 of 3 tokens, wanted 3 of 6, the draft's");
  refuse(DraftVocabulary(Ids{1, 2}, 6), "draft vocabulary: sizes: found 2 of 6 tokens, wanted 3 of 6, the draft's");
  refuse(DraftVocabulary(Ids{1, 2, 5}, 7), "draft vocabulary: sizes: found 3 of 7 tokens, wanted 3 of 6, the draft's");
}

TEST_CASE("a draft without the map it needs is refused, and one parameter too many") {
  const test::TemporaryDirectory directory;
  Parameters<Draft, float> parameters;
  const auto weights = parameters.weights();
  auto tensors = io::sources<Draft>(weights);
  io::write_safetensors(directory / "model.safetensors", tensors);
  CHECK_THROWS_WITH_AS(load_draft(directory.path(), parameters), doctest::Contains("'d2t': found no such tensor"),
                       Error);
  const DraftVocabulary vocabulary(Ids{1, 2, 5}, 6);
  for (auto& t : vocabulary.sources()) tensors.push_back(t);
  tensors.push_back(io::source("extra", vocabulary.d2t()));
  io::write_safetensors(directory / "model.safetensors", tensors);
  CHECK_THROWS_WITH_AS(load_draft(directory.path(), parameters), doctest::Contains("'extra'"), Error);
}

TEST_CASE("every token in another order is not the whole vocabulary: its map is kept") {
  const DraftVocabulary turned(Ids{1, 0}, 2);
  CHECK_FALSE(turned.is_whole());
  const test::TemporaryDirectory directory;
  io::write_safetensors(directory / "model.safetensors", turned.sources());
  CHECK(ids_of(DraftVocabulary::read(io::ModelTensors::open(directory.path()), 2, 2)) == Ids{1, 0});
  CHECK(DraftVocabulary::whole(2).is_whole());
}

TEST_CASE("a draft's folder is loaded with its config.json, which must agree") {
  using Config = configs::KimiK3Tiny;
  const test::TemporaryDirectory directory;
  Parameters<Eagle3Draft<Config>, float> parameters;
  parameters.initialize(3);
  const std::vector<std::int64_t> counts(Config::vocab_size);
  Eagle3Conventions conventions;
  conventions.aux_stream = AuxStream::residual_mixture;
  conventions.layer_ids = LayerIds::layers_executed;
  auto config = io::draft_config_json<DraftKind::eagle3, Config>({1, 3, 4}, DType::F32, conventions);
  save_draft(directory.path(), parameters, DraftVocabulary::most_frequent(counts, Config::draft_vocab_size), config);
  const auto loaded = load_draft<Eagle3Draft<Config>, float>(directory.path());
  CHECK(loaded.layer_ids == Ids{1, 3, 4});
  CHECK(loaded.conventions == conventions);
  CHECK(loaded.vocabulary.draft_size() == Config::draft_vocab_size);
  const auto a = std::as_const(parameters).trainable(), b = loaded.parameters.trainable();
  CHECK(std::equal(a.data(), a.data() + a.size(), b.data()));
  config["hidden_size"] = 7;
  config["rms_norm_eps"] = 1;
  test::write(directory / "config.json", config.dump());
  CHECK_THROWS_WITH_AS((load_draft<Eagle3Draft<Config>, float>(directory.path())),
                       doctest::Contains("config.json: found 2 differences from the config compiled in, wanted none:\n"
                                         "  hidden_size: found 7, wanted 128\n"
                                         "  rms_norm_eps: found 1, wanted 1e-05"),
                       Error);
  config["hidden_size"] = 128, config["rms_norm_eps"] = 1e-5, config["layer_ids"] = "executed";
  config.erase("aux_stream");
  test::write(directory / "config.json", config.dump());
  CHECK_THROWS_WITH_AS((load_draft<Eagle3Draft<Config>, float>(directory.path())),
                       doctest::Contains("  aux_stream: found nothing, wanted running_sum or residual_mixture\n"
                                         "  layer_ids: found \"executed\", wanted after_layer_0 or layers_executed"),
                       Error);
  std::filesystem::remove(directory / "config.json");
  CHECK_THROWS_WITH_AS((load_draft<Eagle3Draft<Config>, float>(directory.path())),
                       doctest::Contains("config.json: found No such"), Error);
}

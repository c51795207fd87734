// What a run writes of a draft of one's own, and what it refuses when it goes on.
#include <doctest/doctest.h>

#include <tests/support/temporary.hpp>
#include <k3spec/io/atomic_file.hpp>
#include <k3spec/run/method.hpp>
#include <k3spec/run/own_draft.hpp>

using namespace k3spec;

namespace {

template <index_t Hidden>
struct Mine {
  static constexpr index_t vocabulary = 9, draft_vocabulary = 9;
  static constexpr const char* architecture = "Mine";
  template <class V>
  static void visit_config(V&& v) {
    v("hidden_size", Hidden), v("activation", "mish");
  }
};
static_assert(OwnDraft<Mine<3>>);
struct OfAKind : Mine<3> {
  static constexpr DraftKind kind = DraftKind::eagle3;
};
static_assert(!OwnDraft<OfAKind>);

struct Forward {
  void evaluate() {}
};
struct Both : Forward {
  void forward_backward() {}
};
static_assert(HasBackward<Both> && !HasBackward<Forward>);

}  // namespace

TEST_CASE("config.json of a draft of one's own") {
  const auto json = draft_config_of<Mine<3>>({1, 4}, DType::BF16, NoConventions{});
  CHECK(
      json.dump() ==
      R"({"activation":"mish","architectures":["Mine"],"dtype":"bfloat16","hidden_size":3,"target_layer_ids":[1,4]})");

  const test::TemporaryDirectory folder;
  const auto path = folder.path() / "config.json";
  io::write_text(path, json.dump());
  check_draft_config_of<Mine<3>>(path, draft_config_of<Mine<3>>({1, 4}, DType::F64, NoConventions{}));
  const auto refuses = [&](const io::json& wanted, const std::string& sentence) {
    CHECK_THROWS_WITH_AS(check_draft_config_of<Mine<3>>(path, wanted), (path.string() + sentence).c_str(), Error);
  };
  refuses(draft_config_of<Mine<5>>({1, 4}, DType::BF16, NoConventions{}), ": hidden_size: found 3, wanted 5");
  refuses(draft_config_of<Mine<3>>({1}, DType::BF16, NoConventions{}), ": target_layer_ids: found [1,4], wanted [1]");
  io::json more = json;
  more["rank"] = 2;
  refuses(more, ": rank: found null, wanted 2");
}

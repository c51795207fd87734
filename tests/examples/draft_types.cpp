#include "examples/common/draft_types.hpp"

#include <doctest/doctest.h>

#include <array>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/eagle3_1.hpp>

using namespace k3spec;
using examples::choose_draft;
using examples::DraftType;
using examples::DraftWish;

namespace {

constexpr auto k3 = Backbone::kimi_k3, v3 = Backbone::deepseek_v3;
constexpr std::array<DraftType, 6> all{{{"Spark", DraftKind::dspark, k3},
                                        {"V3New", DraftKind::eagle3, v3, "3.1"},
                                        {"V3", DraftKind::eagle3, v3, "3"},
                                        {"New", DraftKind::eagle3, k3, "3.1"},
                                        {"Own", DraftKind::eagle3, k3, "3"},
                                        {"Other", DraftKind::dspark, k3}}};

std::string_view chosen(const DraftWish& wish) { return all[choose_draft(all, wish)].name; }

/// A block draft may be made from an EAGLE-3 draft's config, whose fields it then has, too.
struct DSparkOfEagle3 : configs::DSpark<configs::KimiK3Tiny> {};

}  // namespace

TEST_CASE("a config says of which kind and version its draft is") {
  CHECK(examples::draft_kind_of<configs::KimiK3Tiny>() == DraftKind::eagle3);
  CHECK(examples::draft_kind_of<configs::DeepSeekV3Tiny>() == DraftKind::eagle3);
  CHECK(examples::draft_kind_of<configs::KimiK3TinyDFlash>() == DraftKind::dflash);
  CHECK(examples::draft_kind_of<configs::DFlash<configs::KimiK3Tiny>>() == DraftKind::dflash);
  CHECK(examples::draft_kind_of<DSparkOfEagle3>() == DraftKind::dspark);
  CHECK(examples::eagle3_version_of<configs::KimiK3Tiny>() == "3");
  CHECK(examples::eagle3_version_of<configs::Eagle31<configs::KimiK3Tiny>>() == "3.1");
  CHECK(examples::eagle3_version_of<DSparkOfEagle3>().empty());
}

TEST_CASE("of several drafts the one asked for is chosen, the target's own block and version 3 before others") {
  CHECK(chosen({DraftKind::eagle3}) == "Own");
  CHECK(chosen({DraftKind::eagle3, v3}) == "V3");
  CHECK(chosen({DraftKind::eagle3, {}, "3.1"}) == "New");
  CHECK(chosen({DraftKind::eagle3, v3, "3.1"}) == "V3New");
  CHECK(chosen({DraftKind::eagle3, {}, {}, "V3New"}) == "V3New");
  CHECK(chosen({DraftKind::dspark, {}, {}, "Other"}) == "Other");
  const std::span<const DraftType> others = std::span(all).first(2);
  CHECK(choose_draft(others, {DraftKind::eagle3}) == 1);  // there is no other
}

TEST_CASE("what is not compiled in is refused with what is, and so is a wish that nothing tells apart") {
  const std::span<const DraftType> few = std::span(all).first(2);
  const std::string there =
      "wanted one of those compiled in: Spark (dspark), V3New (eagle3 of backbone deepseek_v3 and version 3.1)";
  CHECK_THROWS_WITH_AS(choose_draft(few, {DraftKind::dflash}), ("--draft: found dflash, " + there).c_str(), Error);
  CHECK_THROWS_WITH_AS(choose_draft(few, {DraftKind::eagle3, {}, "3"}),
                       ("--draft: found eagle3 of version 3, " + there).c_str(), Error);
  CHECK_THROWS_WITH_AS(choose_draft(few, {DraftKind::eagle3, k3, "3.1"}),
                       ("--draft: found eagle3 of backbone kimi_k3 and version 3.1, " + there).c_str(), Error);
  CHECK_THROWS_WITH_AS(choose_draft(few, {DraftKind::eagle3, {}, {}, "Spark"}),
                       ("--draft: found eagle3 and --config Spark, " + there).c_str(), Error);
  CHECK_THROWS_WITH_AS(
      choose_draft(all, {DraftKind::dspark}),
      "--draft: found dspark, of which several are compiled in, wanted --config, which names one: Spark "
      "(dspark), Other (dspark)",
      Error);
}

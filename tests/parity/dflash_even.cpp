// The DFlash reference cases in even sizes.
#include <tests/parity/dflash.hpp>

using namespace k3spec;

namespace {

using Cases = test::DFlashCases<test::EvenCases>;
struct NoQLora : Cases {
  static constexpr std::optional<index_t> q_lora_rank = std::nullopt;
};
struct CausalWindow : Cases {
  static constexpr bool block_causal = true;
  static constexpr std::optional<index_t> sliding_window = 6;
};

}  // namespace

TEST_CASE_TEMPLATE("reference: dflash, even sizes", T, float, double) {
  for (const char* name : {"dflash", "dflash_variable_prefix", "dflash_packed"}) test::DFlashCase<Cases, T>(name).run();
  test::DFlashCase<NoQLora, T>("dflash_no_decay_no_q_lora").run();
  test::DFlashCase<CausalWindow, T>("dflash_causal_window").run();
}

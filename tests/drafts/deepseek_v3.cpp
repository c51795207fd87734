// The draft of DeepSeek-V3 in its published size: its parameters, counted by hand.
#include <doctest/doctest.h>

#include <string>

#include <k3spec/config/deepseek_v3.hpp>
#include <k3spec/config/eagle3_1.hpp>
#include <k3spec/drafts/eagle3_draft.hpp>

using namespace k3spec;

namespace {

using Config = configs::DeepSeekV3;
using Draft = Eagle3Draft<Config>;

constexpr index_t h = 7168, heads = 128;
constexpr index_t attention = 1536 * 2 * h + 1536 + heads * (128 + 64) * 1536         // q_a, its norm, q_b
                              + (512 + 64) * 2 * h + 512 + heads * (128 + 128) * 512  // kv_a, its norm, kv_b
                              + h * heads * 128;                                      // o
constexpr index_t trained = 3 * h * h + 4 * h + attention + 3 * 18432 * h + 32000 * h;

static_assert(trained == 982'153'216);
static_assert(trainable_count<Draft> == trained);
static_assert(parameter_count<Draft> == trained + 129280 * h);
static_assert(trainable_count<Eagle3Draft<configs::Eagle31<Config>>> == trained + 3 * h);

}  // namespace

TEST_CASE("a DeepSeek-V3 draft has no gate, and SwiGLU's three matrices") {
  int gates = 0, mlps = 0;
  typename Draft::Weights<float> w{};
  Draft::visit(w, Path{}, [&](const Path& path, auto& view, auto) {
    const std::string name = path.str();
    gates += name.find("g_proj") != std::string::npos ? 1 : 0;
    if (name.find(".mlp.") == std::string::npos) return;
    ++mlps;
    CHECK(view.size() == 18432 * h);
  });
  CHECK(gates == 0);
  CHECK(mlps == 3);
}

#include "k3_tiny.hpp"
#include "tests/backend/allocations.hpp"

using namespace k3spec;
using Config = configs::KimiK3Tiny;
using State = TargetState<Config, float>;
using Tiny = FrozenTarget<Config, float>;

TEST_CASE("forward allocates nothing") {
  const auto& tiny = test::tiny<float>();
  const std::vector<index_t> ids(64, 101);
  std::vector<float> last(64 * Config::hidden_size), logits(64 * Config::vocab_size),
      tapped(64 * 3 * Config::hidden_size);
  const auto taps = eagle3_taps(default_aux_layer_ids(8), 8);
  State state({2, 200});
  Arena arena(Tiny::scratch_bytes(2, 32));
  const auto call = [&](index_t tokens, int threads) {
    const index_t rows = 2 * tokens;
    const Matrix<float> here(last.data(), rows, Config::hidden_size);
    const long before = allocations();
    tiny.frozen->forward(Cpu{threads}, state, Matrix<const index_t>(ids.data(), 2, tokens),
                         {here, taps, Matrix<float>(tapped.data(), rows, 3 * Config::hidden_size)}, arena);
    tiny.frozen->compute_logits(Cpu{threads}, here, Matrix<float>(logits.data(), rows, Config::vocab_size));
    state.accept(1, tokens > 16 ? tokens : tokens / 2);
    return allocations() - before;
  };
  // Threads set up their own workspace the first time.
  call(32, 1), call(32, 2), call(6, 2);
  CHECK(call(32, 1) == 0);
  CHECK(call(32, 2) == 0);
  CHECK(call(6, 1) == 0);
  CHECK(call(1, 2) == 0);
}

TEST_CASE("sizes are known beforehand") {
  static_assert(Tiny::scratch_bytes(1, 6) > 0);
  static_assert(FrozenTarget<configs::KimiK3, bfloat16>::scratch_bytes(1, 8) < (std::size_t{64} << 20));
  static_assert(State::elements({1, 100, 16}).latents == 2 * 100 * 40);
  // KDA states of K3: 69 layers of 96 heads of 128 x 128 floats.
  static_assert(TargetState<configs::KimiK3, bfloat16>::elements({1, 0, 0}).recurrent == 69LL * 96 * 128 * 128);
}

TEST_CASE("what does not fit is refused, and the state stays as it was") {
  const auto& tiny = test::tiny<float>();
  State state({2, 20, 4});
  const auto message = [&](auto&& call) {
    try {
      call();
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  tiny(state, std::vector<index_t>(8, 65));
  CHECK(message([&] { tiny(state, {1, 2, 260, 4}); }) == "target: token id: found 260, wanted 0 to 259");
  CHECK(message([&] { tiny(state, {1, 2, -1, 4}); }) == "target: token id: found -1, wanted 0 to 259");
  CHECK(message([&] { tiny(state, std::vector<index_t>(34, 65)); }) ==
        "target state: positions of sequence 0: found 4 + 17, wanted at most 20");
  CHECK(state.length(0) == 4);
  state.accept(1, 3);
  CHECK(state.length(1) == 3);
  CHECK(message([&] { state.accept(0, 5); }) ==
        "target state: tokens to keep: found 5, wanted 0 to 4 (a call of at most 4 tokens can be taken back)");
  CHECK_THROWS_AS(state.accept(2, 0), Error);
  CHECK_THROWS_AS(state.accept(0, -1), Error);
  tiny(state, std::vector<index_t>(10, 65));
  CHECK(message([&] { state.accept(0, 4); }) ==
        "target state: tokens to keep: found 4, wanted 5 to 5 (a call of at most 4 tokens can be taken back)");
  tiny(state, {});
  CHECK(state.length(0) == 9);
  CHECK(state.length(1) == 8);
  CHECK_THROWS_AS(State({-1, 20}), Error);
}

TEST_CASE("outputs of another size and taps of no layer are refused") {
  const auto& tiny = test::tiny<float>();
  State state({1, 20});
  Arena arena(Tiny::scratch_bytes(1, 2));
  const std::vector<index_t> ids{1, 2};
  std::vector<float> out(1000);
  const auto run = [&](index_t rows, index_t columns, const std::vector<Tap>& taps, index_t tapped) {
    tiny.frozen->forward(Cpu{}, state, Matrix<const index_t>(ids.data(), 1, 2),
                         {Matrix<float>(out.data(), rows, columns), taps, Matrix<float>(out.data() + 300, 2, tapped)},
                         arena);
  };
  CHECK_NOTHROW(run(2, 128, {}, 0));
  CHECK_THROWS_AS(run(1, 128, {}, 0), Error);
  CHECK_THROWS_AS(run(2, 127, {}, 0), Error);
  CHECK_THROWS_AS(run(2, 128, {{Tap::What::embedding}}, 127), Error);
  CHECK_THROWS_AS(run(2, 128, {{Tap::What::running_sum, 8}}, 128), Error);
  CHECK_THROWS_AS(run(2, 128, {{Tap::What::residual_mixture, -1}}, 128), Error);
  CHECK(state.length(0) == 2);
}

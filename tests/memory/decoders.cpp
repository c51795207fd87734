// What decoders say they will hold is what they hold.
#include <doctest/doctest.h>

#include <memory>
#include <utility>
#include <vector>

#include <tests/memory/live_bytes.hpp>
#include <tests/refusals/models.hpp>
#include <k3spec/decode/block_session.hpp>
#include <k3spec/decode/eagle3_session.hpp>
#include <k3spec/decode/no_draft.hpp>
#include <k3spec/decode/plain.hpp>
#include <k3spec/decode/speculative.hpp>

using namespace k3spec;
using refusals::both;

namespace {

using Config = refusals::Target;
constexpr index_t few = 500, many = 100000;

const FrozenTarget<Config, float>& target() {
  static const FrozenTarget<Config, float> frozen(both<K3Target<Config>>().w());
  return frozen;
}

/// What a decoder of some capacity takes. \param make  (capacity) -> decoder
template <class F>
double held(F&& make, index_t capacity) {
  (void)target();
  const std::size_t before = test::live_bytes();
  const auto decoder = make(capacity);
  return static_cast<double>(test::live_bytes() - before);
}

/// Weights and small lists are the same for every capacity. \param bytes  (capacity) -> what it says
template <class F, class B>
void check(F&& make, B&& bytes) {
  const double said = static_cast<double>(bytes(many)) - static_cast<double>(bytes(few));
  CHECK(said > 1e6);
  CHECK(held(make, many) - held(make, few) == doctest::Approx(said).epsilon(0.01));  // pages are taken whole
  CHECK(held(make, few) > static_cast<double>(bytes(few)));
}

template <class Session>
void check_speculative(std::vector<index_t> layers, typename Session::Source source, index_t texts) {
  using Decoder = SpeculativeDecoder<Config, Session>;
  DecodeOptions options;
  options.temperature = 1;
  check(
      [&](index_t capacity) {
        return std::make_unique<Decoder>(target(), layers, typename Session::Conventions{}, source, capacity, options,
                                         texts);
      },
      [&](index_t capacity) { return Decoder::bytes({}, capacity, options, texts); });
  const auto bytes = [&](index_t chain) {
    options.chain = chain;
    return Decoder::bytes({}, few, options, texts);
  };
  CHECK(bytes(2) > bytes(1));
}

}  // namespace

TEST_CASE("a decoder holds what it says it will") {
  DecodeOptions options;
  using Plain = PlainDecoder<Config, float>;
  check([&](index_t capacity) { return std::make_unique<Plain>(target(), capacity, options); },
        [&](index_t capacity) { return Plain::bytes(capacity, options); });
  using Eagle3 = Eagle3Draft<refusals::Eagle3>;
  using Dflash = DFlashDraft<refusals::Dflash>;
  using Dspark = DSparkDraft<refusals::Dspark>;
  for (const index_t texts : {1, 3}) {
    check_speculative<Eagle3Session<Eagle3, float>>({0, 1}, {both<Eagle3>().w(), {0, 1, 2, 3, 4, 22}}, texts);
    check_speculative<BlockSession<Dflash, float>>({0, 1}, {both<Dflash>().w()}, texts);
    check_speculative<BlockSession<Dspark, float>>({0, 1}, {both<Dspark>().w()}, texts);
    check_speculative<NoDraft<Config, float>>({}, {}, texts);
  }
}

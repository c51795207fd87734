// Small valid files, damaged in every place: reading must succeed or throw Error, and never ask for much memory.

#include <doctest/doctest.h>

#include <span>
#include <string>
#include <vector>

#include <k3spec/config/block_drafts.hpp>
#include <k3spec/io/draft_config.hpp>
#include <k3spec/io/model_tensors.hpp>
#include <k3spec/io/safetensors.hpp>

#include "tests/io/largest_allocation.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;
using namespace k3spec::io;

namespace {

constexpr std::size_t few_megabytes = 4 << 20;

std::string small_file() {
  const test::TemporaryDirectory directory;
  const float a[6] = {1, 2, 3, 4, 5, 6};
  const std::int64_t b[2] = {7, 8};
  write_safetensors(directory / "x",
                    {source("a", View<const float, 3, 2>(a)),
                     source("layers.0.b", View<const std::int64_t, 2>(b)),
                     {"none", DType::BF16, {0, 5}, nullptr}},
                    {{"format", "pt"}});
  return test::contents(directory / "x");
}

/// Reads all there is; false when refused.
bool reads(const std::string& bytes) {
  const auto all = std::as_bytes(std::span(bytes.data(), bytes.size()));
  try {
    const SafetensorsHeader header = parse_safetensors_header("damaged", all);
    for (const auto& [name, info] : header.tensors) {
      const auto tensor = all.subspan(header.data_start).subspan(info.begin, info.end - info.begin);
      if (!can_convert(info.dtype, DType::F64)) continue;
      std::vector<double> values(tensor.size() / size_of(info.dtype));
      convert(info.dtype, tensor, DType::F64, values.data());
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Calls f with `bytes` changed at every place before `end`: each bit turned, and some telling characters put in.
/// \param stride  of the places
template <class F>
void for_each_damage(std::string bytes, std::size_t end, F&& f, std::size_t stride = 1) {
  for (std::size_t i = 0; i < end; i += stride) {
    const char original = bytes[i];
    for (unsigned bit = 0; bit < 8; ++bit) {
      bytes[i] = static_cast<char>(static_cast<unsigned char>(original) ^ (1U << bit));
      f(bytes);
    }
    for (const char c : {'\0', '9', '-', '.', 'e', '"', '{', '[', ']', '}', ',', '\\', '\xff'}) {
      bytes[i] = c;
      f(bytes);
    }
    bytes[i] = original;
  }
}

}  // namespace

TEST_CASE("a damaged header is read or refused, in little memory") {
  const std::string whole = small_file();
  const std::size_t header_end = whole.size() - 40;
  CHECK(reads(whole));
  int refused = 0, read = 0;
  test::largest_allocation = 0;
  for_each_damage(whole, header_end, [&](const std::string& bytes) { ++(reads(bytes) ? read : refused); });
  CHECK(refused > 1000);
  CHECK(read > 10);  // a changed letter of a name is no fault
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK_FALSE(reads(whole.substr(0, size)));
  for (std::size_t i = 0; i < header_end; ++i) reads(whole.substr(0, i) + whole.substr(i + 1));
  for (std::size_t i = 0; i < header_end; ++i) reads(whole.substr(0, i) + whole.substr(i, 9) + whole.substr(i));
  CHECK(test::largest_allocation < few_megabytes);
  CHECK(test::largest_allocation > 0);
}

TEST_CASE("a damaged index is read or refused, in little memory") {
  const test::TemporaryDirectory directory;
  test::write(directory / "1.safetensors", small_file());
  const std::string index = R"({"metadata":{"total_size":40},"weight_map":{"a":"1.safetensors",)"
                            R"("layers.0.b":"1.safetensors","none":"1.safetensors"}})";
  const auto opens = [&](const std::string& text) {
    test::write(directory / ModelTensors::index_name, text);
    try {
      return ModelTensors::open(directory.path()).names().size() == 3;
    } catch (const Error&) {
      return false;
    }
  };
  CHECK(opens(index));
  int refused = 0;
  test::largest_allocation = 0;
  for_each_damage(index, index.size(), [&](const std::string& text) { refused += opens(text) ? 0 : 1; });
  for (std::size_t size = 0; size < index.size(); ++size) CHECK_FALSE(opens(index.substr(0, size)));
  CHECK(refused > 1000);
  CHECK(test::largest_allocation < few_megabytes);
}

TEST_CASE("a damaged config.json is compared, completed or refused, in little memory") {
  using DFlash = configs::KimiK3TinyDFlash;
  json target = read_json(K3SPEC_SOURCE_DIR "/examples/data/k3-tiny/config.json")["text_config"], nemo = target;
  nemo["architectures"] = {"KimiK3DFlashDraftModel"}, nemo["block_size"] = 8;
  nemo["dflash_config"] = {{"mask_token_id", 259}, {"target_layer_ids", {1, 3, 5}}};
  int refused = 0, compared = 0;
  test::largest_allocation = 0;
  const auto survives = [&](const std::string& text, auto&& use) {
    try {
      const json root = parse_json(text, "damaged");
      (void)use(root);
      ++compared;
    } catch (const Error&) {
      ++refused;
    }
  };
  for_each_damage(
      target.dump(), target.dump().size(),
      [&](const std::string& text) {
        survives(text, [](const json& root) { return check_target_config<configs::KimiK3Tiny>(root); });
      },
      13);
  for_each_damage(
      nemo.dump(), nemo.dump().size(),
      [&](const std::string& text) {
        survives(text, [](const json& root) {
          auto config = complete_nemo_config<DraftKind::dflash>(root, "damaged").config;
          (void)draft_layer_ids<DraftKind::dflash, DFlash>(config);
          return draft_differences<DraftKind::dflash, DFlash>(config);
        });
      },
      13);
  CHECK(refused > 1000);
  CHECK(compared > 100);
  CHECK(test::largest_allocation < few_megabytes);
}

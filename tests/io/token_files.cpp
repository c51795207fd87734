#include <k3spec/io/token_files.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temporary.hpp"
#include "tests/support/token_files.hpp"

using namespace k3spec;
using test::Ids;
using test::LossMask;

namespace {

const Ids some{0, 1, 200, 255, 256, 259, 7, 7, 7, 3};
const LossMask of_some{1, 0, 1, 1, 0, 0, 1, 1, 1, 0};

Ids values(const io::IntegerColumn& column) {
  Ids out(static_cast<std::size_t>(column.count));
  column.copy(0, column.count, out.data());
  return out;
}

/// All that was read, one file behind the other.
struct Read {
  Ids ids, mask, lengths;
  bool operator==(const Read&) const = default;
};
Read read(const std::filesystem::path& path, index_t vocabulary = 260, std::optional<DType> bin = std::nullopt) {
  Read all;
  for (const io::TokenPart& part : io::open_tokens(path, vocabulary, bin)) {
    const auto append = [](Ids& to, const Ids& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(all.ids, values(part.ids)), append(all.mask, values(part.loss_mask)), append(all.lengths, part.lengths);
  }
  return all;
}

/// What is said of a file's bytes; empty: nothing. It names the file.
std::string fault(const std::string& name, const std::string& bytes) {
  const test::TemporaryDirectory directory;
  test::write(directory / name, bytes);
  try {
    read(directory / name, 260, DType::U16);
  } catch (const Error& e) {
    const std::string file = (directory / name).string();
    CHECK(std::string(e.what()).rfind(file, 0) == 0);
    return std::string(e.what()).substr(std::min(file.size(), std::string(e.what()).size()));
  }
  return "";
}

std::string shard_bytes(const std::vector<io::TensorSource>& tensors) {
  const test::TemporaryDirectory directory;
  io::write_safetensors(directory / "a.safetensors", tensors);
  return test::contents(directory / "a.safetensors");
}

const std::vector<std::int32_t> eight{0, 1, 2, 3, 256, 257, 258, 259};
const std::vector<std::uint8_t> eight_masks{1, 1, 0, 0, 1, 1, 0, 1};
const std::vector<std::int64_t> two_documents{5, 3};

std::vector<io::TensorSource> whole() {
  return {{"input_ids", DType::I32, {8}, eight.data()},
          {"loss_mask", DType::U8, {8}, eight_masks.data()},
          {"seq_lens", DType::I64, {2}, two_documents.data()}};
}
/// A shard with one tensor of another kind, or without it.
std::string fault_with(const char* name, std::optional<io::TensorSource> other) {
  auto tensors = whole();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name != name) continue;
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  if (other) tensors.push_back(*other);
  return fault("a.safetensors", shard_bytes(tensors));
}

}  // namespace

TEST_CASE("the same tokens are read from files of every kind") {
  const test::TemporaryDirectory at;
  test::write(at / "a.uint16", test::raw<std::uint16_t>(some));
  test::write(at / "a.uint32", test::raw<std::uint32_t>(some));
  test::write(at / "a.bin", test::raw<std::uint32_t>(some));
  test::write(at / "u2.npy", test::npy<std::uint16_t>("<u2", some));
  test::write(at / "u4.npy", test::npy<std::uint32_t>("<u4", some, 2));
  test::write(at / "i2.npy", test::npy<std::int16_t>("<i2", some));
  test::write(at / "i4.npy", test::npy<std::int32_t>("<i4", some));
  test::write(at / "i8.npy", test::npy<std::int64_t>("<i8", some));
  test::write(at / "u8.npy", test::npy<std::uint64_t>("<u8", some));
  test::write(at / "spaces.npy", test::npy_file("{ \"shape\":(10,) , 'fortran_order':False,'descr' :\"<u2\"}   \n",
                                                test::raw<std::uint16_t>(some)));
  for (const char* name :
       {"a.uint16", "a.uint32", "u2.npy", "u4.npy", "i2.npy", "i4.npy", "i8.npy", "u8.npy", "spaces.npy"}) {
    CAPTURE(name);
    CHECK(read(at / name) == Read{some, {}, {}});
  }
  CHECK(read(at / "a.bin", 260, DType::U32) == Read{some, {}, {}});
  test::write(at / "b.bin", test::raw<std::uint16_t>(some));
  CHECK(read(at / "b.bin", 260, DType::U16).ids == some);
  CHECK_THROWS_WITH_AS(read(at / "a.bin"),
                       doctest::Contains("a.bin: found a file of tokens that does not say their type, "
                                         "wanted it said: uint16 or uint32"),
                       Error);
  const Ids bytes{0, 10, 13, 127, 128, 255};
  for (const char* name : {"text", "a.txt", "a.md", "npy"}) {
    test::write(at / name, test::raw<std::uint8_t>(bytes));
    CHECK(read(at / name).ids == bytes);
  }
  test::write(at / "u1.npy", test::npy<std::uint8_t>("|u1", bytes));
  test::write(at / "u1b.npy", test::npy<std::uint8_t>("<u1", bytes));
  CHECK(read(at / "u1.npy").ids == bytes);
  CHECK(read(at / "u1b.npy").ids == bytes);
}

TEST_CASE("documents and what is to be learnt are read from shards and JSON lines") {
  const test::TemporaryDirectory at, folder;
  const Ids mask(of_some.begin(), of_some.end());
  test::shard(at / "a.safetensors", some, of_some, {4, 0, 6});
  CHECK(read(at / "a.safetensors") == Read{some, mask, {4, 0, 6}});
  test::shard(at / "b.safetensors", some);
  CHECK(read(at / "b.safetensors") == Read{some, {}, {10}});
  const std::vector<std::int64_t> wide(some.begin(), some.end());
  io::write_safetensors(at / "c.safetensors", {{"input_ids", DType::I64, {5, 2}, wide.data()},
                                               {"loss_mask", DType::BOOL, {5, 2}, of_some.data()}});
  CHECK(read(at / "c.safetensors") == Read{some, mask, {2, 2, 2, 2, 2}});
  const std::vector<std::uint16_t> narrow(some.begin(), some.end());
  const std::vector<std::int32_t> lengths{1, 9};
  io::write_safetensors(at / "d.safetensors", {{"input_ids", DType::U16, {2, 5}, narrow.data()},
                                               {"seq_lens", DType::I32, {2}, lengths.data()}});
  CHECK(read(at / "d.safetensors") == Read{some, {}, {1, 9}});
  io::write_safetensors(at / "e.safetensors", {{"input_ids", DType::U16, {3, 0}, nullptr}});
  CHECK(read(at / "e.safetensors") == Read{});
  test::shard(folder / "2.safetensors", {9, 9});
  test::shard(folder / "10.safetensors", {8}, {0});
  test::shard(folder / "3.safetensors", {}, {}, {});
  test::write(folder / "notes.txt", "mine");
  CHECK(read(folder.path()) == Read{{8, 9, 9}, {0}, {1, 2, 0}});  // 10 before 2: the order of names
  test::write(at / "a.jsonl",
              "{\"input_ids\": [0, 1, 200, 255], \"loss_mask\": [1, 0, 1, 1]}\n"
              "{\"loss_mask\":[],\"input_ids\":[]}\r\n"
              "{\"input_ids\":[256,259,7,7,7,3],\"loss_mask\":[0,0,1,1,1,0]}");
  CHECK(read(at / "a.jsonl") == Read{some, mask, {4, 0, 6}});
  test::write(at / "b.jsonl", test::json_line({4, 5}) + test::json_line({6}, {0}));
  CHECK(read(at / "b.jsonl") == Read{{4, 5, 6}, {1, 1, 0}, {2, 1}});
  test::write(at / "empty.jsonl", "");
  CHECK(read(at / "empty.jsonl") == Read{});
}

TEST_CASE("tokens that the vocabulary has not are refused by file and place") {
  CHECK(fault("a.npy", test::npy<std::int16_t>("<i2", {1, 2, -1})) == ": token 2: found -1, wanted 0 to 259");
  CHECK(fault("a.npy", test::npy<std::uint64_t>("<u8", {1, -1})) ==
        ": token 1: found 18446744073709551615, wanted 0 to 259");
  CHECK(fault("a.uint16", test::raw<std::uint16_t>({1, 2, 260, 261})) == ": token 2: found 260, wanted 0 to 259");
  CHECK(fault("a.bin", test::raw<std::uint16_t>({65535})) == ": token 0: found 65535, wanted 0 to 259");
  Ids far(10'000, 5);
  far[9'999] = 300;
  CHECK(fault("a.uint32", test::raw<std::uint32_t>(far)) == ": token 9999: found 300, wanted 0 to 259");
  const std::vector<std::int32_t> bad{0, 1, 2, 3, 4, -5, 6, 7};
  CHECK(fault_with("input_ids", io::TensorSource{"input_ids", DType::I32, {8}, bad.data()}) ==
        ": 'input_ids': token 5: found -5, wanted 0 to 259");
  CHECK(fault("a.safetensors", shard_bytes({{"input_ids", DType::I32, {4, 2}, bad.data()}})) ==
        ": 'input_ids': row 2, token 1: found -5, wanted 0 to 259");
  CHECK(fault("a.jsonl", test::json_line({1}) + test::json_line({3, 260})) ==
        ": line 2: input_ids: token 1: found 260, wanted 0 to 259");
  const test::TemporaryDirectory at;
  test::write(at / "text", "abc\xff");
  CHECK_THROWS_WITH_AS(read(at / "text", 128), doctest::Contains("text: byte 3: found 255, wanted 0 to 127"), Error);
  const std::vector<std::string> accepted{"a.npy", "text"};
  test::write(at / "a.npy", test::npy<std::uint8_t>("|u1", {127, 0}));
  CHECK_NOTHROW(read(at / "a.npy", 128));
}

TEST_CASE("NumPy files that are damaged, or are no list of little-endian integers, are refused") {
  const std::string data = test::raw<std::uint16_t>({1, 2, 3}), good = test::npy_header("<u2", 3);
  const auto with = [&](const std::string& header) { return fault("a.npy", test::npy_file(header, data)); };
  CHECK(with(good).empty());
  const std::vector<std::pair<std::string, std::string>> headers{
      {"", "header: found its end, wanted {"},
      {"{", "wanted a name in quotes"},
      {"{}", "header: descr: found nothing"},
      {"{'descr': '<u2', 'shape': (3,)}", "header: fortran_order: found nothing"},
      {"{'descr': '<u2', 'fortran_order': False}", "header: shape: found nothing"},
      {"{'fortran_order': False, 'shape': (3,)}", "header: descr: found nothing"},
      {"{'descr': '>u2', 'fortran_order': False, 'shape': (3,)}", "header: descr: found >u2, wanted little-endian"},
      {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}", "header: descr: found <f4"},
      {"{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "header: descr: found |b1"},
      {"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", "header: descr: found |O"},
      {"{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (3,)}", "header: descr: found several fields"},
      {"{'descr': '<u2', 'fortran_order': True, 'shape': (3,)}", "header: fortran_order: found True, wanted False"},
      {"{'descr': '<u2', 'fortran_order': 0, 'shape': (3,)}", "wanted False"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': ()}", "wanted the length of one list"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3)}", "header: found )}, wanted ,"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (-3,)}", "wanted the length of one list"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3, 1)}", "header: shape: found several extents"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,)}", "wanted the length of one list"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (4,)}", "data: found 6 bytes, wanted 4 elements of 2"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (2,)}", "data: found 6 bytes, wanted 2 elements of 2"},
      {"{'descr': '<u4', 'fortran_order': False, 'shape': (1,)}", "data: found 6 bytes, wanted 1 elements of 4"},
      {"{'descr': '<u2', 'descr': '<u2', 'fortran_order': False, 'shape': (3,)}", "header: descr: found it twice"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,), 'x': 1}", "field 'x'"},
      {"{'descr': '<u2', 'fortran_order': False, 'shape': (3,)} x", "header: found x, wanted its end"}};
  for (const auto& row : headers) {
    CAPTURE(row.first);
    const std::string found = with(row.first);
    CAPTURE(found);
    CHECK(found.find(row.second) != std::string::npos);
  }
  CHECK(fault("a.npy", test::npy_file(good, data, 3)) == ": version: found 3.0, wanted 1.0 or 2.0");
  std::string longer = test::npy_file(good, data);
  longer[8] = '\xff';
  CHECK(fault("a.npy", longer) == ": header length: found 255, wanted at most the 64 bytes that follow");
}

TEST_CASE("files of tokens that are cut anywhere are refused") {
  const test::TemporaryDirectory at;
  const std::string npy = test::npy<std::uint32_t>("<u4", {1, 2, 3}), shard = shard_bytes(whole());
  for (std::size_t size = 0; size < npy.size(); ++size) CHECK_FALSE(fault("a.npy", npy.substr(0, size)).empty());
  CHECK(fault("a.npy", npy).empty());
  CHECK_FALSE(fault("a.npy", npy + '\0').empty());
  for (std::size_t size = 0; size < shard.size(); ++size)
    CHECK_FALSE(fault("a.safetensors", shard.substr(0, size)).empty());
  CHECK(fault("a.safetensors", shard).empty());
  CHECK_FALSE(fault("a.safetensors", shard + '\0').empty());
  const std::string line = test::json_line({1, 22, 3}, {1, 0, 1});
  for (std::size_t size = 1; size + 1 < line.size(); ++size) {
    CHECK(fault("a.jsonl", line + line.substr(0, size)).rfind(": line 2: found a parse error", 0) == 0);
  }
  CHECK(fault("a.uint32", std::string(7, '\0')) == ": found 7 bytes, wanted tokens of 4 bytes each");
  CHECK(fault("a.uint16", std::string(1, '\0')) == ": found 1 bytes, wanted tokens of 2 bytes each");
  CHECK(fault("a.uint16", "").empty());
}

TEST_CASE("a header with any byte changed is refused by file, or has what it says") {
  const std::string npy = test::npy<std::uint32_t>("<u4", {1, 2, 3}), shard = shard_bytes(whole());
  index_t refused = 0;
  for (const auto& [name, bytes] : {std::pair<std::string, std::string>("a.npy", npy), {"a.safetensors", shard}}) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      for (const int flip : {1, 32, 128}) {
        std::string changed = bytes;
        changed[i] = static_cast<char>(changed[i] ^ flip);
        if (!fault(name, changed).empty()) ++refused;  // and no other exception, nor a crash
      }
    }
  }
  CHECK(refused > 300);
}

TEST_CASE("shards with tensors that do not fit each other are refused") {
  using Source = io::TensorSource;
  const std::vector<float> floats(8);
  const std::vector<std::uint8_t> twos(8, 2);
  const std::vector<std::int64_t> negative{9, -1}, few{5, 2}, many{5, 4}, far{8, std::int64_t{1} << 62};
  const auto& i = eight;
  CHECK(fault_with("input_ids", std::nullopt) == ": 'input_ids': found no such tensor, wanted a list of tokens");
  CHECK(fault_with("input_ids", Source{"input_ids", DType::F32, {8}, floats.data()}) ==
        ": 'input_ids': element type: found F32, wanted integers");
  CHECK(fault_with("input_ids", Source{"input_ids", DType::I32, {2, 2, 2}, i.data()}) ==
        ": 'input_ids': shape: found [2, 2, 2], wanted one extent, or two");
  CHECK(fault_with("input_ids", Source{"input_ids", DType::I32, {2, 4}, i.data()}) ==
        ": 'loss_mask': shape: found [8], wanted [2, 4], as input_ids");
  CHECK(fault_with("loss_mask", Source{"loss_mask", DType::U8, {7}, eight_masks.data()}) ==
        ": 'loss_mask': shape: found [7], wanted [8], as input_ids");
  CHECK(fault_with("loss_mask", Source{"loss_mask", DType::F32, {8}, floats.data()}) ==
        ": 'loss_mask': element type: found F32, wanted integers");
  CHECK(fault_with("loss_mask", Source{"loss_mask", DType::U8, {8}, twos.data()}) ==
        ": 'loss_mask': token 0: found 2, wanted 0 to 1");
  CHECK(fault_with("seq_lens", Source{"seq_lens", DType::I64, {2}, negative.data()}) ==
        ": 'seq_lens': document 0: found 9, wanted 0 to 8, all tokens there are");
  CHECK(fault_with("seq_lens", Source{"seq_lens", DType::I64, {1}, &negative[1]}) ==
        ": 'seq_lens': document 0: found -1, wanted 0 to 8, all tokens there are");
  CHECK(fault_with("seq_lens", Source{"seq_lens", DType::I64, {2}, few.data()}) ==
        ": 'seq_lens': found a sum of 7, wanted 8");
  CHECK(fault_with("seq_lens", Source{"seq_lens", DType::I64, {2}, many.data()}) ==
        ": 'seq_lens': document 1: found its end behind the last token, wanted lengths that add up to 8");
  CHECK_FALSE(fault_with("seq_lens", Source{"seq_lens", DType::I64, {2}, far.data()}).empty());
  CHECK(fault_with("seq_lens", Source{"seq_lens", DType::F32, {2}, floats.data()}) ==
        ": 'seq_lens': element type: found F32, wanted integers");
  CHECK(fault_with("seq_lens", Source{"seq_lens", DType::I64, {2, 1}, two_documents.data()}) ==
        ": 'seq_lens': shape: found [2, 1], wanted one extent");
  CHECK(fault_with("seq_lens", Source{"seq_len", DType::I64, {2}, two_documents.data()}) ==
        ": 'seq_len': found a tensor of that name, wanted input_ids, loss_mask and seq_lens only");
  const test::TemporaryDirectory empty;
  CHECK_THROWS_WITH_AS(read(empty.path()), doctest::Contains("found a folder without files *.safetensors"), Error);
  test::shard(empty / "a.safetensors", some);
  test::shard(empty / "b.safetensors", {1, 2, 260});
  CHECK_THROWS_WITH_AS(read(empty.path()), doctest::Contains("b.safetensors: 'input_ids': token 2: found 260"), Error);
}

TEST_CASE("JSON lines that are no documents are refused by line") {
  const std::vector<std::pair<std::string, std::string>> lines{
      {"", "found a parse error at line 1"},
      {"[1, 2]", "found [1,2], wanted an object with input_ids"},
      {"3", "found 3, wanted an object"},
      {"{}", "input_ids: found nothing, wanted a list of tokens"},
      {"{\"input_ids\": 3}", "input_ids: found 3, wanted a list"},
      {"{\"input_ids\": \"abc\"}", "input_ids: found \"abc\", wanted a list"},
      {"{\"input_ids\": [1, 2.5]}", "input_ids: token 1: found 2.5, wanted 0 to 259"},
      {"{\"input_ids\": [-1]}", "input_ids: token 0: found -1, wanted 0 to 259"},
      {"{\"input_ids\": [1, [2]]}", "input_ids: token 1: found [2], wanted 0 to 259"},
      {"{\"input_ids\": [1, null]}", "input_ids: token 1: found null, wanted 0 to 259"},
      {"{\"input_ids\": [99999999999999999999]}", "input_ids: token 0: found 1"},
      {"{\"input_ids\": [1], \"loss_mask\": [2]}", "loss_mask: token 0: found 2, wanted 0 to 1"},
      {"{\"input_ids\": [1], \"loss_mask\": [true]}", "loss_mask: token 0: found true, wanted 0 to 1"},
      {"{\"input_ids\": [1], \"loss_mask\": []}", "loss_mask: found 0 values, wanted 1, one for each of input_ids"},
      {"{\"input_ids\": [1], \"loss_mask\": [1, 1]}", "loss_mask: found 2 values, wanted 1, one for each"},
      {"{\"input_ids\": [1], \"loss_mask\": 1}", "loss_mask: found 1, wanted a list"},
      {"{\"input_ids\": [1], \"loss_masks\": [1]}", "found field 'loss_masks', wanted input_ids and loss_mask only"},
      {"{\"input_ids\": [1], \"input_ids\": [2]}", "'input_ids': found the name twice"},
      {"{\"input_ids\": [1]} {}", "found a parse error"},
      {std::string("{\"input_ids\": [1]\0}", 19), "found a NUL byte"}};
  for (const auto& row : lines) {
    CAPTURE(row.first);
    const std::string found = fault("a.jsonl", test::json_line({1}) + row.first + "\n" + test::json_line({2}));
    CAPTURE(found);
    CHECK(found.rfind(": line 2: ", 0) == 0);
    CHECK(found.find(row.second) != std::string::npos);
  }
}

TEST_CASE("only texts and JSON lines count as memory") {
  const test::TemporaryDirectory at;
  for (const char* name : {"a.txt", "a.npy", "a.uint16", "a.jsonl"}) test::write(at / name, std::string(100, ' '));
  CHECK(io::held_bytes(at / "a.txt") == 100);
  CHECK(io::held_bytes(at / "a.jsonl") == 500);
  CHECK(io::held_bytes(at / "a.npy") == 0);
  CHECK(io::held_bytes(at.path()) == 0);
  CHECK(io::held_bytes(at / "none") == 0);
}

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include <csignal>
#include <ctime>
#include <sys/resource.h>
#include <sys/wait.h>

#include <k3spec/io/safetensors.hpp>

#include "tests/support/fsyncs.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;
using namespace k3spec::io;
using test::contents;
using test::TemporaryDirectory;

namespace {

/// A file from a header's text and so many bytes of data.
std::string file_bytes(const std::string& header, std::size_t data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, '\1');
}

/// The message of the Error that reading these bytes gives; empty when there is none.
std::string fault(const std::string& bytes) {
  const TemporaryDirectory directory;
  test::write(directory / "bad.safetensors", bytes);
  try {
    SafetensorsFile::open(directory / "bad.safetensors");
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

bool says(const std::string& message, std::initializer_list<const char*> parts) {
  bool all = message.find("bad.safetensors") != std::string::npos;
  for (const char* part : parts) all = all && message.find(part) != std::string::npos;
  if (!all) MESSAGE(message);
  return all;
}

std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST_CASE("what is written is read back, bit for bit") {
  const TemporaryDirectory directory;
  const auto path = directory / "x.safetensors";
  const double a[6] = {1, -2.5, 1e300, -0.0, 5e-324, 7};
  const bfloat16 b[3] = {bfloat16(1.0F), bfloat16(-3.5F), bfloat16(1e30F)};
  const std::int64_t c[2] = {-1, std::int64_t{1} << 62};
  const bool d[5] = {true, false, true, true, false};
  write_safetensors(path,
                    {source("z.bool", View<const bool, 5>(d)),
                     source("b", View<const bfloat16, 3, 1>(b)),
                     source("a", View<const double, 2, 3>(a)),
                     source("c", View<const std::int64_t, 2>(c)),
                     {"empty", DType::F32, {0, 4}, nullptr},
                     {"scalar", DType::F64, {}, a + 1}},
                    {{"format", "pt"}, {"config", "{\"x\": 1}"}});
  const auto file = SafetensorsFile::open(path);
  CHECK(file.names() == std::vector<std::string>{"a", "b", "c", "empty", "scalar", "z.bool"});
  CHECK(file.metadata() == Metadata{{"format", "pt"}, {"config", "{\"x\": 1}"}});
  CHECK(file.shape("a") == std::vector<index_t>{2, 3});
  CHECK(std::memcmp(file.read_bytes("a").data(), a, sizeof a) == 0);
  CHECK(std::memcmp(file.read<double>("a").data(), a, sizeof a) == 0);
  CHECK(file.read<std::int64_t>("c")[1] == c[1]);
  bool read_d[5];
  file.read_into("z.bool", View<bool, 5>(read_d));
  CHECK(std::equal(d, d + 5, read_d));
  bfloat16 read_b[3];
  file.read_into("b", View<bfloat16, 3, 1>(read_b));
  CHECK(std::memcmp(b, read_b, sizeof b) == 0);
  CHECK(file.read<float>("empty").empty());
  CHECK(file.shape("scalar").empty());
  CHECK(file.read<double>("scalar") == std::vector<double>{-2.5});
}

TEST_CASE("a view with gaps between its rows is filled row by row") {
  const TemporaryDirectory directory;
  const float a[6] = {1, 2, 3, 4, 5, 6};
  write_safetensors(directory / "x", {source("a", View<const float, 3, 2>(a))});
  float out[12] = {};
  SafetensorsFile::open(directory / "x").read_into("a", Matrix<float>(out, Extents<dyn, dyn>(3, 2), 4));
  CHECK(std::vector<float>(out, out + 12) == std::vector<float>{1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0, 0});
  CHECK_THROWS_AS(source("gaps", Matrix<float>(out, Extents<dyn, dyn>(3, 2), 4)), Error);
}

TEST_CASE("the same tensors give the same bytes in any order, data aligned to 8") {
  const TemporaryDirectory directory;
  const float a[2] = {1, 2};
  const double b[1] = {3};
  const std::uint8_t c[3] = {1, 2, 3};
  const TensorSource x = source("x", View<const float, 2>(a)), y = source("y", View<const double, 1>(b)),
                     z = source("a", View<const std::uint8_t, 3>(c));
  write_safetensors(directory / "1", {x, y, z}, {{"k", "v"}});
  write_safetensors(directory / "2", {z, x, y}, {{"k", "v"}});
  const std::string bytes = contents(directory / "1");
  CHECK(bytes == contents(directory / "2"));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  CHECK(SafetensorsFile::open(directory / "1").info("y").begin == 0);
}

TEST_CASE("bytes are counted up to 2^63 - 1, and not beyond") {
  constexpr index_t most = std::numeric_limits<index_t>::max(), half = index_t{1} << 62;
  const auto count = [](DType dtype, const std::vector<index_t>& shape) { return byte_count(dtype, shape); };
  CHECK(count(DType::U8, {most}) == std::uint64_t{most});
  CHECK(count(DType::U8, {1, most, 1}) == std::uint64_t{most});
  CHECK(count(DType::U8, {half, 2}) == std::nullopt);
  CHECK(count(DType::F64, {most / 8}) == std::uint64_t{most} - 7);
  CHECK(count(DType::F64, {most / 8 + 1}) == std::nullopt);
  CHECK(count(DType::U8, {0, most, most}) == 0U);
}

TEST_CASE("every fault of a header has its own message, with file, tensor, found and wanted") {
  CHECK(fault(file_bytes(one_tensor("F32", "[2]", "[0,8]"), 8)).empty());
  CHECK(says(fault("1234567"), {"found a file of 7 bytes", "8 bytes of header length"}));
  CHECK(says(fault(""), {"a file of 0 bytes"}));
  CHECK(says(fault(std::string(8, '\xff')), {"header length: found 18446744073709551615", "at most the 0 bytes"}));
  const std::string longer = file_bytes("{}       ", 0);  // 9 bytes, of which the file has 8
  CHECK(says(fault(longer.substr(0, 16)), {"header length: found 9, wanted at most the 8 bytes that follow"}));
  CHECK(fault(longer).empty());
  CHECK(says(fault(file_bytes("{", 0)), {"header", "parse error", "valid JSON"}));
  CHECK(says(fault(file_bytes("", 3)), {"parse error"}));
  CHECK(says(fault(file_bytes("[1]", 0)), {"header: found a list, wanted an object"}));
  CHECK(says(fault(file_bytes(std::string(100000, '['), 0)), {"found a list"}));
  CHECK(says(fault(file_bytes("{\"\xff\":1}", 0)), {"UTF-8"}));
  CHECK(says(fault(file_bytes(R"({"a":3})", 0)), {"'a'", "found 3", "wanted an object"}));
  CHECK(says(fault(file_bytes(one_tensor("F31", "[2]", "[0,8]"), 8)),
             {"'a': dtype", "found \"F31\"", "known element type"}));
  CHECK(says(fault(file_bytes(R"({"a":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", 8)), {"'a': dtype", "found 7"}));
  CHECK(says(fault(file_bytes(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8)), {"'a': shape: found nothing"}));
  CHECK(says(fault(file_bytes(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8)), {"field 'x'"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "[-2]", "[0,8]"), 8)), {"'a': shape: found -2"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "[2.0]", "[0,8]"), 8)), {"'a': shape: found 2.0"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "2", "[0,8]"), 8)), {"'a': shape: found 2", "a list"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "[9223372036854775808]", "[0,8]"), 8)),
             {"shape: found 9223372036854775808"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "[4294967296,4294967296]", "[0,8]"), 8)),
             {"shape", "a size below 2^63"}));
  // 2^62 floats are 2^64 bytes: 0 when they wrap.
  CHECK(
      says(fault(file_bytes(one_tensor("F32", "[4611686018427387904]", "[0,0]"), 0)), {"shape", "a size below 2^63"}));
  CHECK(
      says(fault(file_bytes(one_tensor("F32", "[2]", "[0]"), 8)), {"'a': data_offsets", "1 numbers", "begin and end"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "[2]", "[8,0]"), 8)),
             {"'a': data_offsets: found [8, 0], wanted begin <= end"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "[2]", "[0,8]"), 7)),
             {"'a': data_offsets: found end 8", "7 bytes of data"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "[3]", "[0,8]"), 8)), {"'a': bytes: found 8, wanted 12 (F32 [3])"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "[2]", "[0,8]"), 9)), {"data: found 9 bytes, wanted 8"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "[2]", "[4,12]"), 12)), {"'a'", "begin 4 (leaves a hole), wanted 0"}));
  const std::string two =
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":)";
  CHECK(says(fault(file_bytes(two + "[3,7]}}", 7)), {"'b'", "begin 3 (overlaps the tensor before), wanted 4"}));
  CHECK(says(fault(file_bytes(two + "[5,9]}}", 9)), {"'b'", "begin 5 (leaves a hole), wanted 4"}));
  const std::string twice =
      R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"\u0061":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}})";
  CHECK(says(fault(file_bytes(twice, 8)), {"'a': found the name twice"}));
  CHECK(says(fault(file_bytes(R"({"__metadata__":{"k":1}})", 0)), {"__metadata__: 'k': found 1, wanted a string"}));
  CHECK(says(fault(file_bytes(R"({"__metadata__":[]})", 0)), {"__metadata__: found a list, wanted an object"}));
  CHECK(says(fault(file_bytes(R"({"__metadata__":{"k":{}}})", 0)), {"__metadata__: 'k': found an object, wanted a"}));
  CHECK(
      says(fault(file_bytes(R"({"__metadata__":{"k":"1","k":"2"}})", 0)), {"__metadata__: 'k': found the name twice"}));
  CHECK(
      says(fault(file_bytes(R"({"__metadata__":{},"__metadata__":{}})", 0)), {"'__metadata__': found the name twice"}));
  CHECK(says(fault(file_bytes("7", 0)), {"header: found 7, wanted an object"}));
  CHECK(says(fault(file_bytes(R"({"a":[{}]})", 0)), {"'a': found a list, wanted an object"}));
  CHECK(says(fault(file_bytes(R"({"a":{"dtype":"F32","dtype":"F32"}})", 0)), {"'a': 'dtype': found the name twice"}));
  CHECK(says(fault(file_bytes(R"({"a":{"dtype":["F32"]}})", 0)), {"'a': dtype: found a list, wanted a known"}));
  CHECK(says(fault(file_bytes(one_tensor("F32", "{}", "[0,8]"), 8)), {"'a': shape: found an object, wanted a list"}));
  CHECK(
      says(fault(file_bytes(one_tensor("F32", "[[2]]", "[0,8]"), 8)), {"'a': shape: found a list, wanted a list of"}));
  std::string ones = "[1";
  for (int i = 1; i < 64; ++i) ones += ",1";
  CHECK(fault(file_bytes(one_tensor("F32", ones + "]", "[0,4]"), 4)).empty());
  CHECK(
      says(fault(file_bytes(one_tensor("F32", ones + ",1]", "[0,4]"), 4)), {"'a': shape: found more than 64 numbers"}));
  // What hides behind the end that the parser would see, and what stands before the format's beginning.
  const std::string good = one_tensor("F32", "[2]", "[0,8]");
  CHECK(fault(file_bytes(good + "   ", 8)).empty());
  CHECK(says(fault(file_bytes(good + std::string(1, '\0') + "hidden", 8)), {"header: found a NUL byte at 54"}));
  CHECK(says(fault(file_bytes(good + " x", 8)), {"parse error"}));
  CHECK(says(fault(file_bytes("\xEF\xBB\xBF" + good, 8)), {"header: found a byte-order mark"}));
  CHECK(says(fault(file_bytes(" " + good, 8)), {"header: found a blank at its beginning, wanted an object at once"}));
  CHECK_THROWS_WITH_AS(SafetensorsFile::open("nowhere/x.safetensors"),
                       doctest::Contains("nowhere/x.safetensors: found No such file"), Error);
  CHECK_THROWS_WITH_AS(SafetensorsFile::open("/tmp"), doctest::Contains("a regular file"), Error);
}

TEST_CASE("a header longer than the format allows is refused before it is parsed") {
  const TemporaryDirectory directory;
  test::write(directory / "bad.safetensors", "\x01\xe1\xf5\x05" + std::string(4, '\0'));  // 100,000,001
  std::filesystem::resize_file(directory / "bad.safetensors", 100'000'100);
  CHECK_THROWS_WITH_AS(SafetensorsFile::open(directory / "bad.safetensors"),
                       doctest::Contains("found 100000001, wanted at most 100000000"), Error);
}

TEST_CASE("a name goes into a message without what a terminal would obey, and shortened") {
  const std::string name = "\\u001b[2J\\u009b\\u202e" + std::string(1'000'000, 'x') + "end";
  const std::string message = fault(file_bytes("{\"" + name + "\":3}", 0));
  CHECK(says(message, {"'\\x1b[2J\\xc2\\x9b\\xe2\\x80\\xae", "xend': found 3, wanted an object"}));
  CHECK(message.size() < 10'000);
  CHECK(fault(file_bytes(one_tensor(std::string(1'000'000, 'y'), "[2]", "[0,8]"), 8)).size() < 1'000);
  CHECK(fault(file_bytes("{\"a\":" + std::string(1'000'000, 'z'), 0)).size() < 10'000);
}

TEST_CASE("a header costs what it is long: four times the tensors, no more than eight times the work") {
  const auto seconds = [](int tensors) {
    std::string header = "{";
    for (int i = 0; i < tensors; ++i) {
      header += (i == 0 ? "\"" : ",\"") + std::to_string(i) + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
                std::to_string(i) + "," + std::to_string(i + 1) + "]}";
    }
    const std::string file = file_bytes(header + "}", static_cast<std::size_t>(tensors));
    const auto used = [] {  // by this thread: on a busy machine the clock on the wall says something else
      ::timespec t{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
    };
    std::vector<TensorSource> sources;
    const std::uint8_t byte = 1;
    for (int i = 0; i < tensors; ++i) sources.push_back({std::to_string(i), DType::U8, {1}, &byte});
    struct {
      std::size_t bytes = 0;
      void write(const void*, std::size_t size) { bytes += size; }
    } sink;
    const double before = used();
    stream_safetensors(sink, sources);
    CHECK(sink.bytes >= file.size());
    const auto read = parse_safetensors_header("x", std::as_bytes(std::span(file.data(), file.size())));
    CHECK(read.tensors.size() == static_cast<std::size_t>(tensors));
    return used() - before;
  };
  seconds(1000);
  CHECK(seconds(20'000) < 8 * seconds(5'000));
}

TEST_CASE("a file that is cut while it is open is an error when it is read, and no signal") {
  const TemporaryDirectory directory;
  const std::vector<float> a(100'000, 1.0F);
  write_safetensors(directory / "x", {source("a", Vector<const float>(a.data(), 100'000))});
  const auto file = SafetensorsFile::open(directory / "x");
  CHECK(file.read<float>("a") == a);
  std::filesystem::resize_file(directory / "x", 5000);
  CHECK_THROWS_WITH_AS(file.read<float>("a"),
                       doctest::Contains("x: 'a': found its file's end at byte 5000, wanted 400"), Error);
  CHECK_THROWS_AS(file.read_bytes("a"), Error);
  // What stands before the end is there.
  float last = 0;
  const auto& tensor = file.tensor("a");
  file.read_part(tensor, 1200, 1, DType::F32, &last);
  CHECK(last == 1);
  CHECK_THROWS_AS(file.read_part(tensor, 1240, 1, DType::F32, &last), Error);
  std::filesystem::resize_file(directory / "x", 400'072);
  CHECK(file.read<float>("a").back() == 0);
}

TEST_CASE("reading refuses unknown names, wrong shapes and counts, and types that do not convert") {
  const TemporaryDirectory directory;
  const float a[6] = {1, 2, 3, 4, 5, 6};
  const std::int64_t b[1] = {1};
  write_safetensors(directory / "x",
                    {source("a", View<const float, 3, 2>(a)), source("b", View<const std::int64_t, 1>(b))});
  const auto file = SafetensorsFile::open(directory / "x");
  float out[8];
  std::int64_t ids[6];
  CHECK_THROWS_WITH_AS(file.info("c"), doctest::Contains("'c': found no such tensor"), Error);
  CHECK_THROWS_WITH_AS(file.read_into("a", View<float, 2, 3>(out)),
                       doctest::Contains("'a': shape: found [3, 2], wanted [2, 3]"), Error);
  CHECK_THROWS_WITH_AS(file.read_into("a", View<float, 6>(out)), doctest::Contains("found [3, 2], wanted [6]"), Error);
  CHECK_THROWS_WITH_AS(file.read_into("a", out, 5), doctest::Contains("'a': elements: found 6, wanted 5"), Error);
  CHECK_THROWS_WITH_AS(file.read_into("a", ids, 6), doctest::Contains("found F32, wanted one that converts to I64"),
                       Error);
  CHECK_THROWS_WITH_AS(file.read_into("b", out, 1), doctest::Contains("found I64, wanted one that converts to F32"),
                       Error);
}

TEST_CASE("the writer refuses what no reader would take, and leaves nothing behind") {
  const TemporaryDirectory directory;
  const float a[2] = {1, 2};
  const auto refuse = [&](const std::vector<TensorSource>& tensors, const char* message,
                          const Metadata& metadata = {}) {
    CHECK_THROWS_WITH_AS(write_safetensors(directory / "x", tensors, metadata), doctest::Contains(message), Error);
  };
  refuse({{"a", DType::F32, {2}, a}, {"a", DType::F32, {2}, a}}, "'a': found the name twice");
  refuse({{"__metadata__", DType::F32, {2}, a}}, "__metadata__");
  refuse({{"a", DType::F32, {-1}, a}}, "shape");
  refuse({{"a", DType::F32, {std::int64_t{1} << 62}, a}}, "2^63");
  refuse({{"a", DType::F32, {1}, nullptr}}, "no data");
  refuse({{"a", DType::F32, std::vector<index_t>(65, 1), a}}, "'a': shape: found 65 extents, wanted at most 64");
  refuse({{std::string(100'000'000, 'a'), DType::F32, {2}, a}}, "wanted at most 99999992");
  refuse({{"\xff", DType::F32, {2}, a}}, "UTF-8");
  CHECK(std::filesystem::is_empty(directory.path()));
}

TEST_CASE("a write that fails leaves the file before it whole, and no other file") {
  const TemporaryDirectory directory;
  const auto path = directory / "x";
  const float a[2] = {1, 2};
  const std::vector<float> big(100000, 3.0F);
  write_safetensors(path, {source("a", View<const float, 2>(a))});
  const std::string before = contents(path);

  SUBCASE("the sink breaks in the middle") {
    CHECK_THROWS_AS(write_atomically(path,
                                     [](FileSink& sink) {
                                       sink.write("half", 4);
                                       throw Error("sink", "no room", "room");
                                     }),
                    Error);
  }
  SUBCASE("the system has no room") {
    ::rlimit old{};
    ::getrlimit(RLIMIT_FSIZE, &old);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const ::rlimit small{4096, old.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    CHECK_THROWS_WITH_AS(write_safetensors(path, {source("b", Vector<const float>(big.data(), 100000))}),
                         doctest::Contains((path.string() + ": found File too large, wanted room for").c_str()), Error);
    ::setrlimit(RLIMIT_FSIZE, &old);
    std::signal(SIGXFSZ, handler);
  }
  SUBCASE("the directory is missing") {
    CHECK_THROWS_WITH_AS(write_safetensors(directory / "no" / "x", {}), doctest::Contains("No such file"), Error);
  }
  SUBCASE("the place is taken by a directory") {
    std::filesystem::create_directory(directory / "taken");
    CHECK_THROWS_AS(write_text(directory / "taken", "text"), Error);
    std::filesystem::remove(directory / "taken");
  }
  CHECK(contents(path) == before);
  CHECK(test::entries(directory.path()) == 1);
}

TEST_CASE("first a file is synced, then moved, then its directory synced; what cannot be synced is an error") {
  const TemporaryDirectory directory;
  const auto path = directory / "x";
  // What stood in the file when the file to come, or its directory, was synced.
  std::string at_file, at_directory;
  int syncs = 0, fail = 0;
  test::fsyncs = [&](const std::filesystem::path& synced) {
    if (std::filesystem::is_directory(synced)) {
      CHECK(synced == directory.path());
      at_directory = contents(path);
    } else {
      CHECK(synced.parent_path() == directory.path());
      CHECK(contents(synced) == "new");
      at_file = contents(path);
    }
    return ++syncs != fail;
  };
  const auto write = [&](int failing) {
    at_file = at_directory = "none";
    syncs = 0, fail = failing;
    write_text(path, "new");
  };
  write(0);
  CHECK(syncs == 2);
  CHECK(at_file == "");
  CHECK(at_directory == "new");
  for (const char* before : {"old", ""}) {
    std::filesystem::remove(path);
    if (*before != 0) test::write(path, before);
    CHECK_THROWS_WITH_AS(write(1), doctest::Contains("Input/output error, wanted data that reaches the disk"), Error);
    CHECK(at_directory == "none");
    CHECK(contents(path) == before);
    CHECK_THROWS_WITH_AS(write(2), doctest::Contains("Input/output error, wanted a directory that reaches the disk"),
                         Error);
    CHECK(at_directory == "new");
    CHECK(contents(path) == before);
    CHECK(test::entries(directory.path()) == (*before != 0 ? 1 : 0));
    write(0);
    CHECK(at_file == before);
    CHECK(contents(path) == "new");
    CHECK(test::entries(directory.path()) == 1);
  }
  test::fsyncs = nullptr;
}

TEST_CASE("a process that dies while writing leaves the file before it whole") {
  const TemporaryDirectory directory;
  write_text(directory / "x", "before");
  const ::pid_t child = ::fork();
  if (child == 0) {
    write_atomically(directory / "x", [](FileSink& sink) {
      sink.write("half", 4);
      ::_exit(0);
    });
  }
  ::waitpid(child, nullptr, 0);
  CHECK(contents(directory / "x") == "before");
  write_text(directory / "x", "after");
  CHECK(contents(directory / "x") == "after");
}

TEST_CASE("streaming hands each tensor on as it lies in memory") {
  struct Counter {
    std::vector<const void*> seen;
    void write(const void* data, std::size_t) { seen.push_back(data); }
  } sink;
  const float a[2] = {1, 2};
  const double b[1] = {1};
  stream_safetensors(sink, {source("a", View<const float, 2>(a)), source("b", View<const double, 1>(b))});
  CHECK(sink.seen.size() == 3);
  CHECK(sink.seen[1] == b);
  CHECK(sink.seen[2] == a);
}

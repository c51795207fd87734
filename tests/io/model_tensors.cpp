#include <doctest/doctest.h>

#include <string>

#include <k3spec/io/model_tensors.hpp>
#include <k3spec/io/safetensors.hpp>

#include "tests/support/temporary.hpp"

using namespace k3spec;
using namespace k3spec::io;
using test::TemporaryDirectory;

namespace {

const float values[4] = {1, 2, 3, 4};

void write_shard(const std::filesystem::path& path, std::initializer_list<const char*> names) {
  std::vector<TensorSource> tensors;
  for (const char* name : names) tensors.push_back(source(name, View<const float, 4>(values)));
  write_safetensors(path, tensors);
}

struct Sharded : TemporaryDirectory {
  Sharded() {
    write_shard(*this / "1.safetensors", {"p.a", "b"});
    write_shard(*this / "2.safetensors", {"c"});
    index(R"("p.a":"1.safetensors","b":"1.safetensors","c":"2.safetensors")");
  }
  void index(const std::string& map) const {
    write_text(*this / ModelTensors::index_name, R"({"metadata":{},"weight_map":{)" + map + "}}");
  }
  void refuse(const char* message) const {
    CHECK_THROWS_WITH_AS(ModelTensors::open(path()), doctest::Contains(message), Error);
  }
};

}  // namespace

TEST_CASE("a checkpoint is a file, an index, or a directory with one of them") {
  const Sharded directory;
  CHECK(ModelTensors::open(directory.path()).names() == std::vector<std::string>{"b", "c", "p.a"});
  CHECK(ModelTensors::open(directory / ModelTensors::index_name).names().size() == 3);
  CHECK(ModelTensors::open(directory / "2.safetensors").names() == std::vector<std::string>{"c"});
  const auto checkpoint = ModelTensors::open(directory.path(), "p.");
  CHECK(checkpoint.names() == std::vector<std::string>{"a", "b", "c"});
  CHECK(checkpoint.read<float>("a") == std::vector<float>(values, values + 4));
  CHECK(checkpoint.stored_name("a") == "p.a");
  CHECK_THROWS_WITH_AS(checkpoint.info("p.a"), doctest::Contains("'p.a': found no such tensor"), Error);
  const TemporaryDirectory empty;
  CHECK_THROWS_WITH_AS(ModelTensors::open(empty.path()), doctest::Contains("neither, wanted model.safetensors or"),
                       Error);
}

TEST_CASE("an index and its shards that disagree are refused, each way with its own message") {
  const Sharded d;
  SUBCASE("a shard is missing") {
    std::filesystem::remove(d / "2.safetensors");
    d.refuse("'c': found no shard 2.safetensors");
  }
  SUBCASE("a tensor is missing") {
    d.index(R"("p.a":"1.safetensors","b":"1.safetensors","c":"2.safetensors","d":"2.safetensors")");
    d.refuse("'d': found 2.safetensors without it, wanted the tensor in that shard");
  }
  SUBCASE("a tensor is not in the index") {
    d.index(R"("p.a":"1.safetensors","c":"2.safetensors")");
    d.refuse("1.safetensors: 'b': found a tensor that");
  }
  SUBCASE("a tensor is in two shards") {
    write_shard(d / "2.safetensors", {"b", "c"});
    d.refuse("2.safetensors: 'b': found the tensor in 1.safetensors too");
  }
  SUBCASE("a name is twice in the index") {
    d.index(R"("b":"1.safetensors","b":"2.safetensors")");
    d.refuse("'b': found the name twice");
  }
  SUBCASE("a shard lies elsewhere") {
    d.index(R"("b":"../1.safetensors")");
    d.refuse("'b': found \"../1.safetensors\", wanted the name of a file beside the index");
    d.index(R"("b":"")");
    d.refuse("'b'");
    d.index(R"("b":"..")");
    d.refuse("'b'");
  }
  SUBCASE("a shard is no name") {
    d.index(R"("b":3)");
    d.refuse("'b': found 3");
  }
  SUBCASE("there is no map") {
    write_text(d / ModelTensors::index_name, "[]");
    d.refuse("weight_map: found no object");
    write_text(d / ModelTensors::index_name, "{");
    d.refuse("index.json: found a parse error at line");
  }
  SUBCASE("a shard is malformed") {
    write_text(d / "2.safetensors", "short");
    d.refuse("2.safetensors: header: found a file of 5 bytes");
  }
}

TEST_CASE("two names that are one without the prefix are refused") {
  const TemporaryDirectory directory;
  write_shard(directory / "x.safetensors", {"p.a", "a"});
  CHECK(ModelTensors::open(directory / "x.safetensors").names().size() == 2);
  CHECK_THROWS_WITH_AS(ModelTensors::open(directory / "x.safetensors", "p."),
                       doctest::Contains("with and without 'p.'"), Error);
}

namespace {

struct Noted : Sharded {
  void total_size(const std::string& value) const {
    write_text(*this / ModelTensors::index_name,
               R"({"metadata":{"total_size":)" + value +
                   R"(},"weight_map":{"p.a":"1.safetensors","b":"1.safetensors","c":"2.safetensors"}})");
  }
  std::vector<std::string> notes() const { return ModelTensors::open(path()).notes(); }
  bool noted(const std::string& what) const {
    const auto all = notes();
    return all.size() == 1 && all[0].find(what) != std::string::npos;
  }
};

}  // namespace

TEST_CASE("what is odd about a checkpoint but does not matter to what is read is noted in a sentence") {
  const Noted d;
  CHECK(d.notes().empty());
  SUBCASE("a total size that is not the tensors'") {
    d.total_size("48");
    CHECK(d.notes().empty());
    d.total_size("48.0");
    CHECK(d.notes().empty());
    for (const char* wrong : {"47", "-1", "\"48\"", "null", "18446744073709551615", "[]"}) {
      d.total_size(wrong);
      CHECK(d.noted(std::string("index.json: metadata.total_size: ") + wrong +
                    ", where the tensors of its shards take 48 bytes"));
    }
  }
  SUBCASE("an index beside a single file, which is read") {
    write_shard(d / ModelTensors::single_name, {"single"});
    CHECK(ModelTensors::open(d.path()).names() == std::vector<std::string>{"single"});
    CHECK(d.noted(": model.safetensors is read, and not the files that model.safetensors.index.json beside it names"));
  }
  SUBCASE("shards that the index does not name") {
    write_shard(d / "model-00003-of-00002.safetensors", {"c"});
    CHECK(d.noted("it does not name model-00003-of-00002.safetensors beside it, so not read"));
    write_shard(d / "model-1\x1b[2J.safetensors", {"c"});
    CHECK(d.noted("it does not name model-00003-of-00002.safetensors and 1 more beside it"));
    std::filesystem::remove(d / "model-00003-of-00002.safetensors");
    CHECK(d.noted("it does not name model-1\\x1b[2J.safetensors beside it"));
  }
}

TEST_CASE("a link to a single file that leads nowhere is no reason to read another model") {
  const Sharded d;
  std::filesystem::create_symlink("../blobs/0123", d / ModelTensors::single_name);
  d.refuse("model.safetensors: found No such file or directory, wanted a readable file");
}

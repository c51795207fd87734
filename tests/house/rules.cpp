#include "rules.hpp"

#include <doctest/doctest.h>

#include <unistd.h>

namespace {

using house::fs::path;

/// A small tree of headers that keeps all rules, in a folder of its own.
class Tree {
 public:
  Tree() : root_(house::fs::temp_directory_path() / ("k3spec_house_" + std::to_string(::getpid()))) {
    write("all.hpp", {"<k3spec/core/a.hpp>", "<k3spec/core/format.hpp>", "<k3spec/ops/b.hpp>", "<k3spec/drafts/c.hpp>",
                      "<k3spec/target/d.hpp>", "<k3spec/io/e.hpp>", "<k3spec/run/f.hpp>",
                      "<k3spec/backend/cpu/packet_eigen.hpp>"});
    write("cuda.hpp", {"<k3spec/all.hpp>", "<k3spec/backend/cuda/launch.hpp>", "<k3spec/comm/nccl.hpp>"});
    write("core/a.hpp", {"<vector>"});
    write("core/format.hpp", {"<fmt/format.h>"});
    write("backend/cuda/launch.hpp", {"<cuda_runtime.h>", "<cublas_v2.h>", "<k3spec/core/a.hpp>"});
    write("comm/nccl.hpp", {"<nccl.h>", "<k3spec/backend/cuda/launch.hpp>"});
    write("backend/cpu/packet_eigen.hpp", {"<Eigen/Core>", "<k3spec/core/a.hpp>"});
    write("ops/b.hpp", {"<k3spec/core/a.hpp>", "<k3spec/backend/cpu/packet_eigen.hpp>"});
    write("drafts/c.hpp", {"<k3spec/ops/b.hpp>"});
    write("target/d.hpp", {"<k3spec/ops/b.hpp>", "<k3spec/io/e.hpp>"});
    write("io/e.hpp", {"<k3spec/core/a.hpp>"});
    write("run/f.hpp", {"<k3spec/drafts/c.hpp>", "<k3spec/target/d.hpp>"});
  }
  ~Tree() { house::fs::remove_all(root_); }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void write(const std::string& name, const std::vector<std::string>& includes) const {
    std::string text = "#pragma once\n/// \\file\n/// Something.\n/// defines: nothing\n\n";
    for (const std::string& include : includes) text += "#include " + include + "\n";
    put(name, text);
  }
  void put(const std::string& name, const std::string& text) const {
    house::fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  std::vector<std::string> violations() const { return house::violations(root_); }

 private:
  path root_;
};

/// The only broken rule of a tree whose header `name` is replaced.
std::string broken_by(const std::string& name, const std::vector<std::string>& includes) {
  const Tree tree;
  tree.write(name, includes);
  const auto found = tree.violations();
  return found.size() == 1 ? found[0] : std::to_string(found.size()) + " violations";
}

std::string broken_by_text(const std::string& text) {
  const Tree tree;
  tree.put("core/a.hpp", text);
  const auto found = tree.violations();
  return found.size() == 1 ? found[0] : std::to_string(found.size()) + " violations";
}

}  // namespace

TEST_CASE("the headers keep the house's rules") {
  const auto found = house::violations(path(K3SPEC_SOURCE_DIR) / "include/k3spec");
  for (const std::string& sentence : found) FAIL_CHECK(sentence);
}

TEST_CASE("a tree that keeps the rules has no violations") { CHECK(Tree().violations().empty()); }

TEST_CASE("a folder's README.md may lie beside its headers; other files are found") {
  const Tree tree;
  tree.put("backend/cuda/README.md", "# Page\n");
  CHECK(tree.violations().empty());
  tree.put("backend/cuda/notes.md", "# Page\n");
  const auto found = tree.violations();
  CHECK(std::count(found.begin(), found.end(), "backend/cuda/notes.md: is no .hpp") == 1);
}

TEST_CASE("the examples of the page on CUDA are code that is tested") {
  const path root = K3SPEC_SOURCE_DIR;
  const auto text = [&](const char* file) { return house::read(root / file).text; };
  const std::string tested = text("tests/cuda/added_kernel.cpp");
  const auto examples = house::examples(text("include/k3spec/backend/cuda/README.md"));
  CHECK(examples.size() == 2);
  for (const std::string& example : examples) {
    CAPTURE(example);
    CHECK(!example.empty());
    CHECK(tested.find(example) != std::string::npos);
  }
}

TEST_CASE("examples are cut out of a page") {
  CHECK(house::examples("a\n```cpp\nint x;\n\nint y;\n```\nb\n```sh\nls\n```\n```cpp\nint z;\n```\n") ==
        std::vector<std::string>{"int x;\n\nint y;", "int z;"});
  CHECK(house::examples("no code").empty());
}

TEST_CASE("planted back arrows are found") {
  CHECK(broken_by("core/a.hpp", {"<k3spec/ops/b.hpp>"}) == "core/a.hpp: back arrow to ops/b.hpp");
  CHECK(broken_by("drafts/c.hpp", {"<k3spec/target/d.hpp>"}) == "drafts/c.hpp: back arrow to target/d.hpp");
  CHECK(broken_by("target/d.hpp", {"<k3spec/run/f.hpp>"}) == "target/d.hpp: back arrow to run/f.hpp");
  CHECK(broken_by("io/e.hpp", {"<k3spec/backend/cpu/packet_eigen.hpp>"}) ==
        "io/e.hpp: back arrow to backend/cpu/packet_eigen.hpp");
  CHECK(broken_by("ops/b.hpp", {"<k3spec/io/e.hpp>"}) == "ops/b.hpp: back arrow to io/e.hpp");
  CHECK(broken_by("core/a.hpp", {"<k3spec/all.hpp>"}) == "core/a.hpp: back arrow to all.hpp");
}

TEST_CASE("other planted faults are found") {
  CHECK(broken_by("ops/b.hpp", {"<Eigen/Core>"}) ==
        "ops/b.hpp: includes <Eigen/Core>, which only backend/cpu/packet_eigen.hpp may");
  CHECK(broken_by("ops/b.hpp", {"<fmt/core.h>"}) == "ops/b.hpp: includes <fmt/core.h>, which only core/format.hpp may");
  CHECK(broken_by("ops/b.hpp", {"\"a.hpp\""}) == "ops/b.hpp: includes \"a.hpp\", wanted <k3spec/...>");
  CHECK(broken_by("ops/b.hpp", {"<k3spec/core/x.hpp>"}) == "ops/b.hpp: includes core/x.hpp, which does not exist");
  CHECK(broken_by("ops/lost.hpp", {}) == "ops/lost.hpp: cannot be reached from all.hpp");
  CHECK(broken_by_text("/// \\file\n#pragma once\n/// \\file\n/// defines: x\n") ==
        "core/a.hpp: does not begin with #pragma once");
  CHECK(broken_by_text("#pragma once\n/// defines: x\n") == "core/a.hpp: has no /// \\file");
  CHECK(broken_by_text("#pragma once\n/// \\file\n/// defines: x\n\nnamespace k3spec::io {\n}\n") ==
        "core/a.hpp: opens k3spec, wanted K3SPEC_NAMESPACE (core/instruction_set.hpp)");
  CHECK(broken_by_text("#pragma once\n/// \\file\n/// Says nothing.\n") == "core/a.hpp: has no `/// defines:` line");
}

TEST_CASE("the page's walks name headers and functions that are there") {
  const path root = path(K3SPEC_SOURCE_DIR) / "include/k3spec";
  const std::string page = house::read(root / "README.md").text;
  for (const std::string& sentence : house::wrong_walks(page, root)) FAIL_CHECK(sentence);
  CHECK(page.find("run/trainer.hpp: `Trainer::step`") != std::string::npos);
  using Found = std::vector<std::string>;
  CHECK(house::wrong_walks("1. run/trainer.hpp: `Trainer::leap` and `add_gradients`.\n\n`nothing`\n", root) ==
        Found{"run/trainer.hpp: does not say Trainer::leap"});
  CHECK(house::wrong_walks("run/nobody.hpp\n", root) == Found{"run/nobody.hpp: is not there"});
}

TEST_CASE("a model that knows its device is found") {
  const auto found_in = [](const std::string& name, const std::string& code) {
    const Tree tree;
    tree.put(name, "#pragma once\n/// \\file\n/// defines: x\n\n#include <k3spec/core/a.hpp>\n" + code);
    return tree.violations();
  };
  using Found = std::vector<std::string>;
  CHECK(found_in("drafts/c.hpp", "void f(const Cpu& cpu);\n") ==
        Found{"drafts/c.hpp: says const Cpu&, which is a backend's"});
  CHECK(found_in("target/d.hpp", "parallel_for(device, 3, f);\n") ==
        Found{"target/d.hpp: says parallel_for, which is a backend's"});
  CHECK(found_in("ops/b.hpp", "cpu::for_pieces(device, 3, 4, false, f);\n") ==
        Found{"ops/b.hpp: says for_pieces, which is a backend's"});
  CHECK(found_in("run/f.hpp", "const Trainer trainer(Cpu{1});\n") ==
        Found{"run/f.hpp: says Cpu{, which is a backend's"});
  CHECK(found_in("io/e.hpp", "void f(const Cpu& cpu);\n") == Found{"io/e.hpp: says const Cpu&, which is a backend's"});
  CHECK(found_in("io/e.hpp", "const int n = Cpu{1}.threads;\n") == Found{});
  CHECK(found_in("backend/cpu/packet_eigen.hpp", "void f(const Cpu& cpu);\n") == Found{});
}

TEST_CASE("a header that compilers could read before they are refused is found") {
  const Tree tree;
  tree.write("core/compiler.hpp", {});
  const auto found = tree.violations();
  const auto has = [&](const std::string& sentence) { return std::count(found.begin(), found.end(), sentence); };
  CHECK(has("core/a.hpp: does not include core/compiler.hpp or a header that does") == 1);
  CHECK(has("core/compiler.hpp: does not include core/compiler.hpp or a header that does") == 0);
  CHECK(has("ops/b.hpp: does not include core/compiler.hpp or a header that does") == 0);
}

TEST_CASE("a header that opens the namespace without its name is found") {
  const Tree tree;
  tree.write("core/instruction_set.hpp", {});
  const std::string opens = "#pragma once\n/// \\file\n/// defines: x\n%\nnamespace K3SPEC_NAMESPACE {\n}\n";
  const auto with = [&](const std::string& include) { return std::string(opens).replace(opens.find('%'), 1, include); };
  tree.put("ops/b.hpp", with("#include <k3spec/core/a.hpp>"));
  tree.put("io/e.hpp", with("#include <k3spec/core/instruction_set.hpp>"));
  const auto found = tree.violations();
  const auto has = [&](const std::string& sentence) { return std::count(found.begin(), found.end(), sentence); };
  CHECK(has("ops/b.hpp: opens K3SPEC_NAMESPACE and does not bring core/instruction_set.hpp") == 1);
  CHECK(has("io/e.hpp: opens K3SPEC_NAMESPACE and does not bring core/instruction_set.hpp") == 0);
}

TEST_CASE("a room's umbrella brings the room, and the light ones no files") {
  const std::string c = "<k3spec/drafts/c.hpp>", f = "<k3spec/run/f.hpp>";
  const auto tree_with = [](const std::string& name, const std::vector<std::string>& includes) {
    const Tree tree;
    tree.write("all.hpp", {"<k3spec/core/format.hpp>", "<k3spec/io/e.hpp>", "<k3spec/run/f.hpp>", "<k3spec/run/g.hpp>",
                           "<k3spec/drafts/files.hpp>", "<k3spec/" + name + ">"});
    tree.write("run/g.hpp", {"<k3spec/core/a.hpp>"});
    tree.write("drafts/files.hpp", {"<k3spec/core/a.hpp>", "<filesystem>"});
    tree.write(name, includes);
    return tree.violations();
  };
  using Found = std::vector<std::string>;
  CHECK(tree_with("train.hpp", {f, "<k3spec/run/g.hpp>"}) == Found{});
  CHECK(tree_with("train.hpp", {f}) == Found{"run/g.hpp: cannot be reached from train.hpp"});
  CHECK(tree_with("drafts.hpp", {c}) == Found{});
  CHECK(tree_with("drafts.hpp", {"<k3spec/core/a.hpp>"}) == Found{"drafts/c.hpp: cannot be reached from drafts.hpp"});
  CHECK(tree_with("drafts.hpp", {c, "<k3spec/drafts/files.hpp>"}) == Found{"drafts.hpp: brings files"});
  CHECK(tree_with("drafts.hpp", {c, "<filesystem>"}) == Found{"drafts.hpp: brings files"});
  CHECK(broken_by("layers.hpp", {"<k3spec/core/a.hpp>"}) == "layers.hpp: cannot be reached from all.hpp");
}

TEST_CASE("what tests are made with stands beside") {
  const auto tree_with = [](const std::vector<std::string>& umbrella, const std::string& also) {
    const Tree tree;
    tree.write("testing.hpp", umbrella);
    tree.write("testing/t.hpp", {"<k3spec/ops/b.hpp>", "<k3spec/io/e.hpp>"});
    if (!also.empty()) tree.write("run/f.hpp", {also});
    return tree.violations();
  };
  using Found = std::vector<std::string>;
  const std::string t = "<k3spec/testing/t.hpp>";
  CHECK(tree_with({t}, "") == Found{});
  CHECK(tree_with({"<k3spec/core/a.hpp>"}, "") == Found{"testing/t.hpp: cannot be reached from testing.hpp"});
  const auto seen = tree_with({t}, t);
  CHECK(std::count(seen.begin(), seen.end(), "run/f.hpp: back arrow to testing/t.hpp") == 1);
  CHECK(std::count(seen.begin(), seen.end(), "testing/t.hpp: is reached from all.hpp, which brings no tests") == 1);
  CHECK(broken_by("testing/t.hpp", {"<k3spec/drafts/c.hpp>"}).find("2 violations") == 0);
}

TEST_CASE("CUDA outside its rooms is found") {
  const std::string homes = ", which only backend/cuda/ and comm/nccl.hpp may";
  for (const std::string include : {"<cuda_runtime.h>", "<cuda.h>", "<cuda_bf16.h>", "<cublas_v2.h>", "<nccl.h>",
                                    "<cooperative_groups.h>", "<cuda/std/array>"}) {
    CHECK(broken_by("ops/b.hpp", {include}) == "ops/b.hpp: includes " + include + homes);
  }
  const std::string launch = "<k3spec/backend/cuda/launch.hpp>", nccl = "<k3spec/comm/nccl.hpp>";
  CHECK(broken_by("cuda.hpp", {"<cuda_runtime.h>", "<k3spec/all.hpp>", launch, nccl}) ==
        "cuda.hpp: includes <cuda_runtime.h>" + homes);
  CHECK(broken_by("cuda.hpp", {launch, nccl}) == "cuda.hpp: does not include all.hpp");
  CHECK(broken_by("backend/cuda/launch.hpp", {"<k3spec/cuda.hpp>"}) ==
        "backend/cuda/launch.hpp: back arrow to cuda.hpp");
  CHECK(broken_by("backend/cuda/lost.hpp", {}) == "backend/cuda/lost.hpp: cannot be reached from cuda.hpp");
  CHECK(broken_by("ops/b.hpp", {"<k3spec/backend/cuda/launch.hpp>"}) ==
        "backend/cuda/launch.hpp: is reached from all.hpp, which needs no CUDA");
}

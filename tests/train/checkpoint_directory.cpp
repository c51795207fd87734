#include <k3spec/train/checkpoint_directory.hpp>

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fsyncs.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;

namespace {

struct Stop {};

struct Run : test::TemporaryDirectory {
  std::filesystem::path root = *this / "run" / "out";
  CheckpointDirectory checkpoints{root, 2};

  void save(index_t step, const std::string& text) {
    checkpoints.save(step, [&](const std::filesystem::path& at) {
      io::write_text(at / "a", text);
      checkpoints.before("between");
      io::write_text(at / "b", text);
    });
  }
  /// What the latest checkpoint's files hold; they must be of one save.
  std::string read() const {
    const auto at = CheckpointDirectory(root).latest();
    if (!at) return "none";
    CHECK(test::contents(*at / "a") == test::contents(*at / "b"));
    return test::contents(*at / "a");
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(root)) all.insert(entry.path().filename().string());
    return all;
  }
};

using Names = std::set<std::string>;

}  // namespace

TEST_CASE("the newest checkpoint is the latest, and the oldest are removed") {
  Run run;
  CHECK(run.read() == "none");
  CHECK(CheckpointDirectory::resolve(run.root) == run.root);
  for (index_t step : {5, 10, 15, 100}) run.save(step, std::to_string(step));
  CHECK(run.read() == "100");
  CHECK(run.names() == Names{"latest", "step-00000015", "step-00000100"});
  CHECK(CheckpointDirectory::resolve(run.root) == run.root / "step-00000100");
  CHECK(std::filesystem::read_symlink(run.root / "latest") == "step-00000100");
}

TEST_CASE("a step saved again replaces itself, and later ones of an abandoned run go") {
  Run run;
  run.save(5, "five");
  run.save(5, "again");
  CHECK(run.read() == "again");
  CHECK(run.names() == Names{"latest", "step-00000005.again"});
  run.save(5, "thrice");
  CHECK(run.read() == "thrice");
  CHECK(run.names() == Names{"latest", "step-00000005"});
  run.save(9, "nine");
  run.save(7, "seven");
  CHECK(run.read() == "seven");
  CHECK(run.names() == Names{"latest", "step-00000005", "step-00000007"});
}

TEST_CASE("wherever a save is cut off there is a whole checkpoint, and the next save cleans up") {
  std::set<std::string> stages;
  {
    Run run;
    run.checkpoints.before = [&](std::string_view stage) { stages.insert(std::string(stage)); };
    run.save(1, "1");
  }
  CHECK(stages == std::set<std::string>{"create", "between", "sync", "move", "latest", "prune"});
  for (const std::string& fatal : stages) {
    for (const index_t step : {10, 11}) {  // the latest step again, and a new one
      CAPTURE(fatal);
      CAPTURE(step);
      Run run;
      run.save(9, "9");
      run.save(10, "10");
      run.checkpoints.before = [&](std::string_view stage) {
        if (stage == fatal) throw Stop{};
      };
      CHECK_THROWS_AS(run.save(step, "new"), Stop);
      CHECK(run.read() == (fatal == "prune" ? "new" : "10"));
      run.checkpoints.before = [](std::string_view) {};
      run.save(step, "retry");
      CHECK(run.read() == "retry");
      CHECK(run.names().size() == 3);
      CHECK(run.names().count("latest") == 1);
    }
  }
}

TEST_CASE("what a save that was cut off left behind, the next step's save removes") {
  for (const char* fatal : {"create", "between", "sync", "move", "latest", "prune"}) {
    CAPTURE(fatal);
    Run run;
    run.save(9, "9");
    run.save(10, "10");
    run.checkpoints.before = [&](std::string_view stage) {
      if (stage == fatal) throw Stop{};
    };
    CHECK_THROWS_AS(run.save(11, "new"), Stop);
    std::filesystem::create_directory(run.root / "step-00000008.tmp.tmp");  // of a removal that was cut off
    run.checkpoints.before = [](std::string_view) {};
    run.save(12, "next");
    CHECK(run.read() == "next");
    CHECK(run.names() ==
          Names{"latest",
                fatal == std::string("prune") || fatal == std::string("latest") ? "step-00000011" : "step-00000010",
                "step-00000012"});
  }
}

TEST_CASE("the first save cut off leaves none") {
  Run run;
  run.checkpoints.before = [](std::string_view stage) {
    if (stage == "latest") throw Stop{};
  };
  CHECK_THROWS_AS(run.save(1, "1"), Stop);
  CHECK(run.read() == "none");
}

TEST_CASE("a checkpoint is synced before it is moved, and after; where that fails, the one before stays the latest") {
  Run run;
  run.save(5, "old");
  std::vector<std::string> synced;
  std::size_t fail = 0;
  test::fsyncs = [&](const std::filesystem::path& path) {
    synced.push_back(std::filesystem::is_directory(path) ? path.filename().string() : "file");
    if (synced.back() == "step-00000010.tmp") CHECK_FALSE(std::filesystem::exists(run.root / "step-00000010"));
    return synced.size() != fail;
  };
  const std::vector<std::string> all{
      "file", "step-00000010.tmp", "file", "step-00000010.tmp", "step-00000010.tmp", "out", "out"};
  for (fail = 1; fail <= all.size(); ++fail) {
    std::filesystem::remove_all(run.root / "step-00000010");
    synced.clear();
    CHECK_THROWS_AS(run.save(10, "new"), Error);
    CHECK(synced == std::vector<std::string>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(fail)));
    CHECK(run.read() == "old");
  }
  fail = 0;
  std::filesystem::remove_all(run.root / "step-00000010");
  synced.clear();
  run.save(10, "new");
  CHECK(synced == all);
  CHECK(run.read() == "new");
  CHECK(run.names() == Names{"latest", "step-00000005", "step-00000010"});
  test::fsyncs = nullptr;
}

TEST_CASE("what could never be saved is known before, and a checkpoint that no link names is found") {
  Run run;
  CHECK(CheckpointDirectory(run.root).newest() == std::nullopt);
  run.checkpoints.prepare();
  CHECK(run.names().empty());
  for (const index_t step : {5, 40}) run.save(step, "text");
  std::filesystem::create_directory(run.root / "step-00000060.tmp");
  std::filesystem::remove(run.root / "latest");
  CHECK(run.read() == "none");
  CHECK(run.checkpoints.newest() == run.root / "step-00000040");
  CHECK_NOTHROW(run.checkpoints.prepare());
  std::filesystem::create_directory(run.root / "latest");
  CHECK_THROWS_WITH_AS(run.checkpoints.prepare(), doctest::Contains("latest: found something else than a link"), Error);
  io::write_text(run / "file", "");
  CHECK_THROWS_WITH_AS(CheckpointDirectory(run / "file").prepare(), doctest::Contains("a directory that can be"),
                       Error);
}

TEST_CASE("other files in the directory stay") {
  Run run;
  run.save(1, "1");
  std::filesystem::create_directory(run.root / "step-by-step");
  test::write(run.root / "log.jsonl", "x");
  for (index_t step : {2, 3, 4}) run.save(step, "y");
  CHECK(run.names() == Names{"latest", "log.jsonl", "step-00000003", "step-00000004", "step-by-step"});
}

TEST_CASE("a directory that cannot be made is an error, and so is keeping none") {
  const test::TemporaryDirectory at;
  test::write(at / "file", "");
  CheckpointDirectory under_a_file(at / "file");
  CHECK_THROWS_AS(under_a_file.save(1, [](const auto&) {}), Error);
  CHECK_THROWS_WITH_AS(CheckpointDirectory(at.path(), 0), "checkpoints to keep: found 0, wanted at least 1", Error);
}

TEST_CASE("two threads that replace one file do not meet: it is always one's, whole") {
  const test::TemporaryDirectory at;
  CHECK(io::detail::name_beside(at / "a") != io::detail::name_beside(at / "a"));
  bool failed[2] = {false, false};
  const auto replace = [&](char letter, bool& wrong) {
    try {
      for (int i = 0; i < 20; ++i) io::write_text(at / "a", std::string(10000, letter));
    } catch (const Error&) {
      wrong = true;
    }
  };
  std::thread other([&] { replace('x', failed[0]); });
  replace('y', failed[1]);
  other.join();
  CHECK_FALSE(failed[0]);
  CHECK_FALSE(failed[1]);
  const std::string found = test::contents(at / "a");
  CHECK(found == std::string(10000, found.empty() ? '?' : found[0]));
  CHECK(test::entries(at.path()) == 1);
}

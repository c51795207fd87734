#include <k3spec/io/checkpoint_directory.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fsyncs.hpp"
#include "tests/support/temporary.hpp"

using namespace k3spec;

namespace {

struct Stop {};

struct Run : test::TemporaryDirectory {
  std::filesystem::path root = *this / "run" / "out";
  CheckpointDirectory checkpoints{root, 2};

  void save(index_t step, const std::string& text, bool best = false) { save(checkpoints, step, text, best); }
  static void save(CheckpointDirectory& to, index_t step, const std::string& text, bool best = false) {
    const auto write = [&](const std::filesystem::path& at) {
      io::write_text(at / "a", text);
      to.before("between");
      io::write_text(at / "b", text);
    };
    to.save(step, write, best);
  }
  /// What the latest checkpoint's files hold; they must be of one save.
  std::string read() const {
    const auto at = CheckpointDirectory(root).latest();
    if (!at) return "none";
    CHECK(test::contents(*at / "a") == test::contents(*at / "b"));
    return test::contents(*at / "a");
  }
  /// Without the run's own folder.
  std::set<std::string> names() const {
    auto all = names_in(root);
    all.erase(".k3spec");
    return all;
  }
  std::set<std::string> own_names() const { return names_in(root / ".k3spec"); }
  static std::set<std::string> names_in(const std::filesystem::path& directory) {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) all.insert(entry.path().filename());
    return all;
  }
};

/// Calls f in a process of its own. \returns how that ended, as waitpid says
template <class F>
int in_a_process(F&& f) {
  const ::pid_t child = ::fork();
  if (child == 0) {
    try {
      f();
    } catch (const std::exception& e) {
      std::fputs((std::string(e.what()) + "\n").c_str(), stderr);
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

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

TEST_CASE("the best checkpoint stays, however many are newer, until another one is the best") {
  Run run;
  CHECK_FALSE(run.checkpoints.best());
  run.save(5, "5"), run.save(10, "10", true);
  for (index_t step : {15, 20, 25}) run.save(step, std::to_string(step));
  CHECK(run.names() == Names{"best", "latest", "step-00000010", "step-00000020", "step-00000025"});
  CHECK(run.checkpoints.best() == run.root / "step-00000010");
  CHECK(std::filesystem::read_symlink(run.root / "best") == "step-00000010");
  run.save(30, "30", true);
  CHECK(run.names() == Names{"best", "latest", "step-00000025", "step-00000030"});
  // An earlier checkpoint is gone on from: the best one is replaced only when another one is.
  run.save(28, "28");
  CHECK(run.names() == Names{"best", "latest", "step-00000025", "step-00000028", "step-00000030"});
  run.save(30, "again");
  CHECK(run.names() == Names{"best", "latest", "step-00000028", "step-00000030", "step-00000030.again"});
  CHECK(test::contents(run.root / "best" / "a") == "30");
  run.save(31, "31", true);
  CHECK(run.names() == Names{"best", "latest", "step-00000030.again", "step-00000031"});
}

TEST_CASE("killed between its links, a run finds the best of its checkpoints up to the latest one") {
  Run run;
  const auto value = [](const std::filesystem::path& at) -> std::optional<double> {
    const std::string text = test::contents(at / "a");
    return text == "none" ? std::nullopt : std::optional(std::stod(text));
  };
  CHECK_FALSE(run.checkpoints.find_best(value));
  run.save(1, "2.5", true), run.save(2, "none");
  run.checkpoints.before = [](std::string_view stage) {
    if (stage == "best") throw Stop{};
  };
  CHECK_THROWS_AS(run.save(3, "3.5", true), Stop);
  run.checkpoints.before = [](std::string_view) {};
  CHECK(run.read() == "3.5");
  CHECK(run.checkpoints.best() == run.root / "step-00000001");
  CHECK(run.checkpoints.find_best(value) == 3.5);
  CHECK(run.checkpoints.best() == run.root / "step-00000003");
  // Of equals the first; of a later one than the latest nothing is known.
  std::filesystem::remove(run.root / "latest");
  std::filesystem::create_symlink("step-00000002", run.root / "latest");
  CHECK(run.checkpoints.find_best(value) == 2.5);
  CHECK(run.checkpoints.best() == run.root / "step-00000001");
  CHECK(run.checkpoints.find_best([](const auto&) { return std::optional(1.0); }) == 1);
  CHECK(run.checkpoints.best() == run.root / "step-00000001");
  CHECK_FALSE(run.checkpoints.find_best([](const auto&) { return std::optional<double>(); }));
  CHECK_FALSE(std::filesystem::is_symlink(run.root / "best"));
}

TEST_CASE("a link 'best' of somebody's own stays, and is known before") {
  Run run;
  std::filesystem::create_directories(run.root / "theirs");
  std::filesystem::create_symlink("theirs", run.root / "best");
  CHECK_THROWS_WITH_AS(run.checkpoints.prepare(),
                       doctest::Contains("which is no checkpoint of the run, wanted a link to the best checkpoint"),
                       Error);
  CHECK_THROWS_AS(run.save(1, "1"), Error);
  CHECK(std::filesystem::read_symlink(run.root / "best") == "theirs");
}

TEST_CASE("wherever a save fails there is a whole checkpoint, and nothing half written stays") {
  std::set<std::string> stages;
  {
    Run run;
    run.checkpoints.before = [&](std::string_view stage) { stages.insert(std::string(stage)); };
    run.save(1, "1");
  }
  CHECK(stages == Names{"create", "between", "sync", "manifest", "move", "latest", "prune", "forget"});
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
      CHECK(run.read() == (fatal == "prune" || fatal == "forget" ? "new" : "10"));
      CHECK(run.own_names() == Names{"lock", "manifest.json"});
      run.checkpoints.before = [](std::string_view) {};
      run.save(step, "retry");
      CHECK(run.read() == "retry");
      CHECK(run.names().size() == 3);
      CHECK(run.names().count("latest") == 1);
    }
  }
}

TEST_CASE("wherever a run is killed there is a whole checkpoint, and the next start removes what it left") {
  for (const char* fatal : {"create", "between", "sync", "manifest", "move", "latest", "prune", "forget"}) {
    CAPTURE(fatal);
    const std::string at = fatal;
    Run run;
    std::filesystem::create_directories(run.root / "step-00000008.tmp");  // these are somebody's
    test::write(run.root / "latest.tmp", "notes");
    const int status = in_a_process([&] {
      run.save(9, "9");
      run.save(10, "10");
      run.checkpoints.before = [&](std::string_view stage) {
        if (stage == at) ::raise(SIGKILL);
      };
      run.save(11, "new");
    });
    CHECK(WIFSIGNALED(status));
    const bool turned = at == "prune" || at == "forget";
    CHECK(run.read() == (turned ? "new" : "10"));
    run.checkpoints.prepare();
    CHECK(run.read() == (turned ? "new" : "10"));
    CHECK(run.own_names() == Names{"lock", "manifest.json"});
    run.save(12, "next");
    CHECK(run.read() == "next");
    const bool moved = turned || at == "latest";
    CHECK(run.names() == Names{"latest", "latest.tmp", moved ? "step-00000011" : "step-00000010", "step-00000012",
                               "step-00000008.tmp"});
  }
}

TEST_CASE("killed while it removes a checkpoint, or with its manifest half written: the next start ends it") {
  Run run;
  CHECK(in_a_process([&] {
          for (const index_t step : {9, 10}) run.save(step, "x");
        }) == 0);
  test::write(run.root / "step-00000009" / "notes", "somebody's");
  std::filesystem::rename(run.root / "step-00000009", run.root / ".k3spec" / "step-00000009.removed");
  std::filesystem::remove(run.root / ".k3spec" / "step-00000009.removed" / "a");
  test::write(run.root / ".k3spec" / "manifest.json.tmp1-2", "{");
  run.checkpoints.prepare();
  CHECK(run.own_names() == Names{"lock", "manifest.json"});
  CHECK(run.names() == Names{"latest", "step-00000009", "step-00000010"});
  CHECK(Run::names_in(run.root / "step-00000009") == Names{"notes"});
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
    if (synced.back() == "new") CHECK_FALSE(std::filesystem::exists(run.root / "step-00000010"));
    return synced.size() != fail;
  };
  const std::vector<std::string> all{"file", "new",     "file", "new", "new",  // its files
                                     "file", ".k3spec", "out",  "out", "file", ".k3spec"};
  for (fail = 1; fail <= all.size() - 2; ++fail) {
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

TEST_CASE("however many checkpoints a save removes, the manifest is written before them and after") {
  for (const index_t old : {2, 40}) {
    CAPTURE(old);
    Run run;
    {
      CheckpointDirectory keeps_all(run.root, 100);
      for (index_t step = 1; step <= old; ++step) Run::save(keeps_all, step, "old");
    }
    index_t syncs = 0;
    test::fsyncs = [&](const std::filesystem::path&) { return ++syncs > 0; };
    run.save(old + 1, "new");
    test::fsyncs = nullptr;
    CHECK(syncs == 11);
    CHECK(run.names() == Names{"latest", checkpoint_name(old), checkpoint_name(old + 1)});
    CHECK(run.own_names() == Names{"lock", "manifest.json"});
  }
}

TEST_CASE(
    "killed amid many removals: what is gone is forgotten with the next start, the others go with the next save") {
  Run run;
  const int status = in_a_process([&] {
    CheckpointDirectory keeps_all(run.root, 100);
    for (index_t step = 1; step <= 6; ++step) Run::save(keeps_all, step, "old");
  });
  CHECK(status == 0);
  for (const index_t step : {1, 2}) std::filesystem::remove_all(run.root / checkpoint_name(step));
  std::filesystem::rename(run.root / checkpoint_name(3), run.root / ".k3spec" / (checkpoint_name(3) + ".removed"));
  run.checkpoints.prepare();
  CHECK(run.own_names() == Names{"lock", "manifest.json"});
  CHECK(run.names() == Names{"latest", checkpoint_name(4), checkpoint_name(5), checkpoint_name(6)});
  run.save(7, "new");
  CHECK(run.names() == Names{"latest", checkpoint_name(6), checkpoint_name(7)});
}

TEST_CASE("what could never be saved is known before, and a checkpoint that no link names is found") {
  Run run;
  CHECK(CheckpointDirectory(run.root).newest() == std::nullopt);
  run.checkpoints.prepare();
  CHECK(run.names().empty());
  for (const index_t step : {5, 40}) run.save(step, "text");
  std::filesystem::create_directory(run.root / "step-00000060.tmp");
  std::filesystem::create_directory(run.root / "step-00000070");
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

TEST_CASE("a link 'latest' of somebody's own stays, and is known before: it names no checkpoint of the run") {
  Run run;
  std::filesystem::create_directories(run.root / "theirs");
  std::filesystem::create_directories(run.root / "step-00000003");  // without a checkpoint
  test::write(run.root / "notes", "mine");
  for (const char* target : {"nowhere", "theirs", "notes", "step-00000003", "../elsewhere/step-00000009", "/", "."}) {
    CAPTURE(target);
    std::filesystem::remove(run.root / "latest");
    std::filesystem::create_symlink(target, run.root / "latest");
    CHECK_THROWS_WITH_AS(run.checkpoints.prepare(),
                         doctest::Contains((std::string("latest: found a link to ") + target + ", which").c_str()),
                         Error);
    CHECK_THROWS_AS(run.save(1, "1"), Error);
    CHECK(std::filesystem::read_symlink(run.root / "latest") == target);
  }
  CHECK_FALSE(std::filesystem::exists(run.root / "step-00000001"));
}

TEST_CASE("a link 'latest' that names a checkpoint of the run in another way, or one that is gone, is the run's") {
  for (const bool whole : {false, true}) {
    Run run;
    run.save(5, "five");
    const std::filesystem::path target = whole ? run.root / "step-00000005" : "./step-00000005/";
    std::filesystem::remove(run.root / "latest");
    std::filesystem::create_symlink(target, run.root / "latest");
    CHECK_NOTHROW(run.checkpoints.prepare());
    run.checkpoints.before = [&](std::string_view stage) {
      if (stage == "latest") throw Stop{};
    };
    CHECK_THROWS_AS(run.save(5, "again"), Stop);
    CHECK(run.read() == "five");
  }
  Run run;
  std::filesystem::create_directories(run.root);
  std::filesystem::create_symlink("step-00000005", run.root / "latest");
  run.save(1, "one");
  CHECK(run.read() == "one");
}

TEST_CASE("a folder where the run makes its link is known before") {
  Run run;
  run.save(1, "1");
  std::filesystem::create_directories(run.root / ".k3spec" / "latest" / "theirs");
  CHECK_THROWS_WITH_AS(run.checkpoints.prepare(), doctest::Contains(".k3spec/latest: found a directory, wanted"),
                       Error);
  CHECK(std::filesystem::exists(run.root / ".k3spec" / "latest" / "theirs"));
}

TEST_CASE("of checkpoints of one step, the newest is the one with the higher number") {
  Run run;
  for (const char* name : {"step-00000007.again10", "step-00000007.again2", "step-00000007.again", "step-00000007"}) {
    std::filesystem::create_directories(run.root / name);
    test::write(run.root / name / "trainer.json", "{}");
  }
  for (const char* name : {"step-00000007.again10", "step-00000007.again2", "step-00000007.again", "step-00000007"}) {
    CHECK(run.checkpoints.newest() == run.root / name);
    std::filesystem::remove_all(run.root / name);
  }
}

TEST_CASE("what lies where a link in the place of the run's own folder leads is not taken for what a crash left") {
  Run run;
  std::filesystem::create_directories(run / "theirs" / "new");
  test::write(run / "theirs" / "new" / "notes", "x");
  std::filesystem::create_directories(run.root);
  std::filesystem::create_directory_symlink(run / "theirs", run.root / ".k3spec");
  CHECK_THROWS_WITH_AS(run.checkpoints.prepare(), doctest::Contains(".k3spec: found a link, wanted the run's own"),
                       Error);
  CHECK_THROWS_AS(run.save(1, "1"), Error);
  CHECK(test::contents(run / "theirs" / "new" / "notes") == "x");
  CHECK_FALSE(std::filesystem::exists(run / "theirs" / "lock"));
}

TEST_CASE("what the run did not write stays, whatever it is called") {
  for (const bool resumed : {false, true}) {
    CAPTURE(resumed);
    Run run;
    const Names theirs{"step-7",         "step-00000002", "step-00000500", "step-00000002.again",
                       "step-notes.tmp", "step-by-step",  "step-1.tmp",    "latest.tmp"};
    const auto write = [&] {
      for (const std::string& name : theirs) {
        std::filesystem::create_directories(run.root / name);
        test::write(run.root / name / "model.safetensors", name);
      }
    };
    if (resumed) run.save(1, "1");
    write();
    run.checkpoints = CheckpointDirectory(run.root, 1);
    for (const index_t step : {2, 3, 500, 2, 7}) run.save(step, std::to_string(step));
    CHECK(run.read() == "7");
    Names all = theirs;
    all.insert({"latest", "step-00000007"});
    CHECK(run.names() == all);
    for (const std::string& name : theirs) CHECK(test::contents(run.root / name / "model.safetensors") == name);
  }
}

TEST_CASE("what somebody put into a checkpoint stays when that goes; one that became a link is left alone") {
  Run run;
  run.save(1, "1");
  test::write(run.root / "step-00000001" / "notes", "mine");
  std::filesystem::create_directory(run.root / "step-00000001" / "sub");
  run.save(2, "2");
  std::filesystem::rename(run.root / "step-00000002", run / "elsewhere");
  std::filesystem::create_directory_symlink(run / "elsewhere", run.root / "step-00000002");
  for (const index_t step : {3, 4, 5}) run.save(step, "x");
  CHECK(Run::names_in(run.root / "step-00000001") == Names{"notes", "sub"});
  CHECK(Run::names_in(run / "elsewhere") == Names{"a", "b"});
  CHECK(std::filesystem::is_symlink(run.root / "step-00000002"));
  CHECK(run.own_names() == Names{"lock", "manifest.json"});
}

TEST_CASE("a run from before there were manifests goes on, and what is there stays") {
  Run run;
  for (const char* name : {"step-00000001", "step-00000002"}) {
    std::filesystem::create_directories(run.root / name);
    test::write(run.root / name / "trainer.json", name);
  }
  std::filesystem::create_directories(run.root / "step-00000003.tmp");
  std::filesystem::create_directories(run.root / "step-00000004");
  std::filesystem::create_directory_symlink("step-00000001", run.root / "latest");
  run.checkpoints.prepare();
  CHECK(run.checkpoints.unknown() == std::vector<std::string>{"step-00000001", "step-00000002", "step-00000003.tmp"});
  for (const index_t step : {2, 3, 4}) run.save(step, std::to_string(step));
  CHECK(run.names() == Names{"latest", "step-00000001", "step-00000002", "step-00000003", "step-00000003.tmp",
                             "step-00000004", "step-00000004.again"});
  run.checkpoints = CheckpointDirectory(run.root);
  run.checkpoints.prepare();
  CHECK(run.checkpoints.unknown().empty());  // said once
}

TEST_CASE("a copy of a run's folder goes on; checkpoints copied into it from elsewhere stay") {
  Run run, other;
  for (const index_t step : {1, 2}) run.save(step, "run"), other.save(step + 10, "other");
  const auto copy = run / "copy";
  std::filesystem::copy(run.root, copy,
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  std::filesystem::copy(other.root / "step-00000011", copy / "step-00000011");
  CheckpointDirectory there(copy, 1);
  Run::save(there, 3, "copy");
  auto names = Run::names_in(copy);
  names.erase(".k3spec");
  CHECK(names == Names{"latest", "step-00000003", "step-00000011"});
}

TEST_CASE("a manifest that names what is no checkpoint's is refused, and nothing removed") {
  Run run;
  run.save(1, "1");
  test::write(run.root / "precious", "x");
  const auto refuse = [&](const std::string& text, const char* message) {
    test::write(run.root / ".k3spec" / "manifest.json", text);
    CHECK_THROWS_WITH_AS(run.checkpoints.prepare(), doctest::Contains(message), Error);
    CHECK(test::contents(run.root / "precious") == "x");
    CHECK(run.read() == "1");
  };
  refuse("{", "manifest.json: found");
  refuse("{", "; moved away, it leaves the checkpoints that are there");
  refuse(io::json{{"format", 1}, {"checkpoints", {{"step-" + std::string(5000, '0'), {"a"}}}}}.dump(), "0[...]0");
  refuse("[]", "manifest.json: format: found nothing, wanted 1");
  refuse(R"({"format":2})", "manifest.json: format: found 2, wanted 1");
  refuse(R"({"format":1})", "manifest.json: checkpoints: found no object");
  for (const char* name : {"..", "precious", "step-1", "step-00000001/../precious", "step-000000001"}) {
    refuse(io::json{{"format", 1}, {"checkpoints", {{name, {"a"}}}}}.dump(), "a checkpoint's name");
  }
  for (const char* name : {"", ".", "..", "../precious", "/precious"}) {
    refuse(io::json{{"format", 1}, {"checkpoints", {{"step-00000001", {name}}}}}.dump(), "the name of a file in it");
  }
  for (const char* files : {"5", "null", "{}", "\"a\""}) {
    refuse(std::string(R"({"format":1,"checkpoints":{"step-00000001":)") + files + "}}",
           "manifest.json: checkpoints: step-00000001: found ");
  }
}

TEST_CASE("a save that fails says the file and leaves nothing half written") {
  Run run;
  run.save(1, "1");
  const Names before = run.names(), own{"lock", "manifest.json"};
  CHECK(in_a_process([&] {  // a full disk
          ::signal(SIGXFSZ, SIG_IGN);
          const ::rlimit limit{1000, 1000};
          ::setrlimit(RLIMIT_FSIZE, &limit);
          try {
            run.save(2, std::string(5000, 'x'));
          } catch (const Error& e) {
            if (e.subject() == (run.root / ".k3spec" / "new" / "a").string()) ::_exit(42);
          }
        }) == 42 << 8);
  CHECK(run.names() == before);
  CHECK(run.own_names() == own);
  CHECK_THROWS_WITH_AS(
      run.checkpoints.save(2, [](const auto& at) { std::filesystem::create_directory(at / "directory"); }),
      doctest::Contains("/new/directory: found a directory, wanted files only"), Error);
  CHECK(run.own_names() == own);
  // A folder that vanishes, and comes back with the next save.
  run.checkpoints.before = [&](std::string_view stage) {
    if (stage == "between") std::filesystem::remove_all(run.root);
  };
  CHECK_THROWS_WITH_AS(run.save(2, "2"), doctest::Contains("/new/b"), Error);
  CHECK_FALSE(std::filesystem::exists(run.root));
  run.checkpoints.before = [](std::string_view) {};
  run.save(2, "2");
  CHECK(run.read() == "2");
  CHECK(run.own_names() == own);
  // A link that somebody made a file of.
  std::filesystem::remove(run.root / "latest");
  test::write(run.root / "latest", "mine");
  CHECK_THROWS_WITH_AS(run.save(3, "3"), doctest::Contains("latest: found something else than a link"), Error);
  CHECK(test::contents(run.root / "latest") == "mine");
  CHECK(run.own_names() == own);
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

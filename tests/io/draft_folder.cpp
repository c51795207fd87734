// Which folder is meant by a draft's, whatever a copy made of a run's link to its newest checkpoint.
#include <k3spec/io/draft_folder.hpp>

#include <doctest/doctest.h>

#include "tests/support/temporary.hpp"

using namespace k3spec;
namespace fs = std::filesystem;

namespace {

/// A run with two checkpoints and, unless taken away, the link to the newer.
struct RunFolder : test::TemporaryDirectory {
  RunFolder() {
    for (const char* step : {"step-00000009", "step-00000010.again"}) checkpoint(step);
    fs::create_directory(*this / "step-00000011");  // without a draft: no checkpoint
    fs::create_directory(*this / "step-12x"), fs::create_directory(*this / "other");
    fs::create_directory_symlink("step-00000010.again", latest());
  }
  void checkpoint(const fs::path& name) const {
    fs::create_directory(*this / name);
    test::write(*this / name / "config.json", "{}");
  }
  fs::path latest() const { return *this / "latest"; }
  std::string newest() const { return (*this / "step-00000010.again").string(); }
  /// The run's folder and `latest` in it mean the same.
  void means(const fs::path& wanted, const std::string& note = {}) const {
    for (const fs::path& given : {path(), path() / "", latest(), latest() / ""}) {
      CAPTURE(given);
      const DraftFolder found = draft_folder(given);
      CHECK(found.path == wanted);
      CHECK(found.note == note);
    }
  }
  void refuse(const std::string& found) const {
    for (const fs::path& given : {path(), path() / "", latest(), latest() / ""}) {
      CAPTURE(given);
      CHECK_THROWS_WITH_AS(draft_folder(given),
                           (latest().string() + ": found " + found +
                            ", where a run has a link to its newest checkpoint, wanted a checkpoint by its name: the "
                            "newest is " +
                            newest())
                               .c_str(),
                           Error);
    }
  }
};

}  // namespace

TEST_CASE("of a run's folder its newest checkpoint is meant, of a draft's itself") {
  const RunFolder run;
  run.means(run / "step-00000010.again");
  CHECK(draft_folder(run / "step-00000009").path == run / "step-00000009");
  CHECK(draft_folder(run / "other").path == run / "other");  // it has none: whoever opens it says so
  CHECK(draft_folder(run / "none").path == run / "none");
  CHECK(draft_folder("").path == "");
  const test::TemporaryDirectory alone;  // a draft's folder may be called so
  fs::create_directory(alone / "latest");
  CHECK(draft_folder(alone / "latest").path == alone / "latest");
  CHECK(draft_folder(alone / "latest").note.empty());
}

TEST_CASE("a copy whose link is lost, leads nowhere or became a file is refused, with the checkpoint's name") {
  const RunFolder run;
  fs::remove(run.latest());
  SUBCASE("lost") { run.refuse("nothing"); }
  SUBCASE("leads nowhere") {
    fs::create_symlink("step-00000013", run.latest());
    run.refuse("a link to step-00000013, which is no checkpoint");
  }
  SUBCASE("became a file") {
    test::write(run.latest(), "step-00000010.again");
    run.refuse("a file");
  }
  SUBCASE("became an empty folder") {
    fs::create_directory(run.latest());
    run.refuse("no checkpoint");
  }
}

TEST_CASE("a copy whose link became a folder is read, with a note") {
  const RunFolder run;
  fs::remove(run.latest());
  run.checkpoint("latest");
  run.means(run.latest(), run.latest().string() + ": a folder of its own, no link to a checkpoint: what is in " +
                              run.newest() + " may be newer");
}

TEST_CASE("of checkpoints of one step, the newest is the one with the higher number behind .again") {
  const test::TemporaryDirectory run;
  for (const char* name : {"step-00000007.again10", "step-00000007.again2", "step-00000007.again", "step-00000007"}) {
    fs::create_directory(run / name);
    test::write(run / name / "config.json", "{}");
  }
  for (const char* name : {"step-00000007.again10", "step-00000007.again2", "step-00000007.again", "step-00000007"}) {
    CHECK(newest_checkpoint(run.path(), k3spec::detail::is_draft_folder) == run / name);
    fs::remove_all(run / name);
  }
}

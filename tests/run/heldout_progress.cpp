#include <k3spec/run/heldout_progress.hpp>

#include <doctest/doctest.h>

using namespace k3spec;

TEST_CASE("looks: the longest accept length, and how many have passed since") {
  HeldoutProgress p;
  CHECK(p.look(1.0));
  CHECK(p.looks_since == 0);
  CHECK_FALSE(p.look(1.0));  // as long is not longer
  CHECK_FALSE(p.look(0.5));
  CHECK(p.looks_since == 2);
  CHECK(p.best_look == 1.0);
  CHECK(p.look(1.25));
  CHECK(p.looks_since == 0);
  CHECK(p.best_look == 1.25);
}

TEST_CASE("what a run knows of held-out text goes through a checkpoint, and what no run can have is refused") {
  HeldoutProgress p;
  p.look(4.0 / 3), p.look(1.0), p.accept_length = 1.0, p.windows = 12;
  const auto again = HeldoutProgress::from_json(io::parse_json(p.to_json().dump(), "j"), "j");
  CHECK(again.best_look == p.best_look);
  CHECK(again.looks_since == 1);
  CHECK(again.accept_length == 1.0);
  CHECK(again.windows == 12);
  CHECK(HeldoutProgress::from_json(io::parse_json(R"({"looks_since": 3})", "j"), "j").windows == 0);  // made before
  const auto none = HeldoutProgress::from_json(io::parse_json(HeldoutProgress{}.to_json().dump(), "j"), "j");
  CHECK_FALSE(none.best_look);
  CHECK_FALSE(none.accept_length);
  CHECK_FALSE(HeldoutProgress::from_json({}, "j").best_look);  // a checkpoint made before there was any

  const auto refused = [](const char* text) -> std::string {
    try {
      HeldoutProgress::from_json(io::parse_json(text, "j"), "j");
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing";
  };
  CHECK(refused(R"({"looks_since": -1})") == "j: looks_since: found -1, wanted a count");
  CHECK(refused(R"({"looks_since": 0, "windows": 1.5})") == "j: windows: found 1.5, wanted a count");
  CHECK(refused(R"({"looks_since": 0, "windows": -2})") == "j: windows: found -2, wanted a count");
  CHECK(refused("[]") == "j: looks_since: found null, wanted a count");
  CHECK(refused(R"({"looks_since": 0, "best_look": 0.5})") ==
        "j: best_look: found 0.5, wanted a number of at least 1, or null");
  CHECK(refused(R"({"looks_since": 0, "accept_length": "2"})") ==
        "j: accept_length: found \"2\", wanted a number of at least 1, or null");
}

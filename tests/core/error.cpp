#include <doctest/doctest.h>

#include <k3spec/core/error.hpp>

using namespace k3spec;

TEST_CASE("an error says subject, found and wanted") {
  const Error error("'fc.weight': shape", "[2, 3]", "[3, 2]");
  CHECK(error.what() == std::string("'fc.weight': shape: found [2, 3], wanted [3, 2]"));
  const Error outer = error.within("draft.safetensors");
  CHECK(outer.subject() == "draft.safetensors: 'fc.weight': shape");
  CHECK(outer.found() == "[2, 3]");
  CHECK(outer.wanted() == "[3, 2]");
  CHECK(outer.what() == std::string("draft.safetensors: 'fc.weight': shape: found [2, 3], wanted [3, 2]"));
}

TEST_CASE("require throws exactly when the condition does not hold") {
  CHECK_NOTHROW(require(true, "steps", "1", "at least 1"));
  CHECK_THROWS_WITH_AS(require(false, "steps", "0", "at least 1"), "steps: found 0, wanted at least 1", Error);
}

TEST_CASE("what a terminal would obey is shown instead, and what can be read stays") {
  CHECK(printable("a\x1b[31m\tb\x7f\n") == "a\\x1b[31m\\x09b\\x7f\\x0a");
  CHECK(printable("a\nb", 100, true) == "a\nb");
  const std::string text = "grün, 東京, 🙂 \\x1b";
  CHECK(printable(text) == text);
  for (const char* control : {"\xc2\x80", "\xc2\x9f", "\xe2\x80\x8e", "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa9"}) {
    CHECK(printable(control).front() == '\\');
  }
  for (const char* other : {"\xc2\xa0", "\xe2\x80\x93", "\xe2\x81\xaa", "\xef\xbf\xbd", "\xf4\x8f\xbf\xbf"}) {
    CHECK(printable(other) == other);
  }
  // No UTF-8: alone, cut, overlong, a surrogate, beyond the last character.
  CHECK(printable("\x9b") == "\\x9b");
  CHECK(printable("\xe2\x80") == "\\xe2\\x80");
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");
  CHECK(printable("\xe0\x80\x9b") == "\\xe0\\x80\\x9b");
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");
  CHECK(printable("\xf4\x90\x80\x80").front() == '\\');
}

TEST_CASE("of long text beginning and end are shown, whole characters, however long it is") {
  for (const std::size_t size : {17U, 31U, 32U, 33U, 1000U}) {
    for (const char* unit : {"x", "ü", "東", "🙂", "\x1b"}) {
      std::string text;
      while (text.size() < size) text += unit;
      const std::string shown = printable(text, 16);
      CHECK(shown.size() <= 16);
      CHECK(shown.find("[...]") != std::string::npos);
      CHECK(printable(shown, 16) == shown);
    }
  }
  CHECK(printable("beginning, middle and end", 16) == "beginnin[...]end");
  const Error error(std::string(1 << 20, 'a'), std::string(1 << 20, '\0'), std::string(1 << 20, '\n'));
  CHECK(std::string(error.what()).size() < 30'000);
  CHECK(std::string(error.within("file").what()).size() < 30'000);
}

// JSON values: what they are made of, what they compare equal to, the text they become and come from.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <k3spec/io/json.hpp>

using namespace k3spec;
using namespace k3spec::io;

namespace {

constexpr auto most = std::numeric_limits<std::uint64_t>::max();

void refuse(const std::string& text, const char* message) {
  CAPTURE(text);
  CHECK_THROWS_WITH_AS(parse_json(text, "x"), doctest::Contains(message), Error);
}

}  // namespace

TEST_CASE("values are written as they were made") {
  CHECK(json().dump() == "null");
  CHECK(json{{"b", 1}, {"a", {1, -2, 2.5, "s", nullptr, true}}}.dump() == R"({"a":[1,-2,2.5,"s",null,true],"b":1})");
  CHECK(json{{"a", 1}, {2, "b"}}.dump() == R"([["a",1],[2,"b"]])");
  CHECK(json{"a", "b"}.dump() == R"(["a","b"])");
  CHECK(json{json{1}}.dump() == "[[1]]");
  CHECK(json::array({json{1}}).dump() == "[[1]]");
  CHECK(json(std::vector<std::int64_t>{1, 2}).dump() == "[1,2]");
  CHECK(json(std::map<std::string, std::string>{{"k", "v"}}).dump() == R"({"k":"v"})");
  CHECK(json(most).dump() == "18446744073709551615");
  CHECK(json(std::numeric_limits<std::int64_t>::min()).dump() == "-9223372036854775808");
  CHECK(json{{"a", json::array()}, {"b", json::object()}, {"c", {1, {{"d", 2}}}}}.dump(2) ==
        "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": 2\n    }\n  ]\n}");
}

TEST_CASE("numbers have the fewest digits that give them back, and stay what they are") {
  const std::pair<double, const char*> cases[] = {{0, "0.0"},
                                                  {-0.0, "-0.0"},
                                                  {1, "1.0"},
                                                  {-2.5, "-2.5"},
                                                  {0.1, "0.1"},
                                                  {1e-4, "0.0001"},
                                                  {1.5e-4, "0.00015"},
                                                  {1e-5, "1e-05"},
                                                  {1.25e-5, "1.25e-05"},
                                                  {123456, "123456.0"},
                                                  {1e14, "100000000000000.0"},
                                                  {123456789012345.0, "123456789012345.0"},
                                                  // From here on Python's repr of these.
                                                  {1e15, "1000000000000000.0"},
                                                  {1234567890123456.0, "1234567890123456.0"},
                                                  {4503599627370497.5, "4503599627370498.0"},
                                                  {9007199254740993.0, "9007199254740992.0"},
                                                  {9999999999999998.0, "9999999999999998.0"},
                                                  {1e16, "1e+16"},
                                                  {12345678901234568.0, "1.2345678901234568e+16"},
                                                  {1e22, "1e+22"},
                                                  {1e23, "1e+23"},
                                                  {1e300, "1e+300"},
                                                  {5e-324, "5e-324"},
                                                  {1.7976931348623157e308, "1.7976931348623157e+308"},
                                                  {std::nan(""), "null"},
                                                  {-std::numeric_limits<double>::infinity(), "null"}};
  for (const auto& [x, text] : cases) {
    CHECK(json(x).dump() == text);
    if (std::isfinite(x)) CHECK(parse_json(text, "x").get<double>() == x);
    if (std::isfinite(x)) CHECK(parse_json(text, "x").is_number_float());
  }
  CHECK(json(0.1F).dump() == "0.10000000149011612");
}

TEST_CASE("strings are escaped, and bytes that are no UTF-8 refused or replaced") {
  const std::string all =
      std::string("a\"\\/\b\f\n\r\t\x01\x1f\x7f\xC3\xA9\xF0\x9F\x98\x80", 18) + std::string(1, '\0');
  const std::string text = json(all).dump();
  CHECK(text == "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\xC3\xA9\xF0\x9F\x98\x80\\u0000\"");
  CHECK(parse_json(text, "x") == all);
  CHECK_THROWS_WITH_AS(json("a\xff").dump(), doctest::Contains("JSON string: found a\\xff, wanted UTF-8"), Error);
  CHECK_THROWS_AS((json{{"a\xff", 1}}.dump()), Error);
  CHECK(json("a\xff\xC3z").dump(-1, Utf8::replace) == "\"a\xEF\xBF\xBD\xEF\xBF\xBDz\"");
}

TEST_CASE("values are equal when their kinds and numbers are") {
  CHECK(json(1) == 1.0);
  CHECK(json(1U) == 1);
  CHECK(json(-1) != most);
  CHECK(json(most) != -1);
  CHECK(json(most) == most);
  CHECK(json(std::nan("")) != std::nan(""));
  CHECK(json(true) != 1);
  CHECK(json("1") != 1);
  CHECK(json() == nullptr);
  CHECK(json{{"a", {1, 2}}} == json{{"a", {1.0, 2U}}});
  CHECK(json{1, 2} != json{1, 3});
  CHECK(json{1, 2} != json{1});
}

TEST_CASE("a value is what it was moved, copied or assigned from, also from inside itself") {
  json a{{"x", {1, "two", {{"three", 3}}}}};
  const json copy = a;
  json moved = std::move(a);
  CHECK(moved == copy);
  moved = json(moved["x"]);
  moved = moved[2];
  CHECK(moved == json{{"three", 3}});
  moved = std::move(moved["three"]);
  CHECK(moved == 3);
  const json& self = moved;
  moved = self;
  CHECK(moved == 3);
  json outer{{"x", {{"x", 1}, {"y", 2}, {"z", 3}}}};
  outer.update(outer["x"]);
  CHECK(outer == json{{"x", 1}, {"y", 2}, {"z", 3}});
  json list{1, {2, 3}};
  list.push_back(list);
  list[0] = list;
  list = list[0][1];
  CHECK(list == json{2, 3});
}

TEST_CASE("asking a value for what it is not is an error, never a guess") {
  const json object{{"a", 1}}, list{1, 2};
  CHECK(object.find("b") == object.end());
  CHECK(*object.find("a") == 1);
  CHECK(list.find("a") == list.end());
  CHECK_THROWS_WITH_AS(object.at("b"), doctest::Contains("JSON: b: found nothing, wanted a value"), Error);
  CHECK_THROWS_AS(object["b"], Error);
  CHECK_THROWS_WITH_AS(list.at(2), doctest::Contains("found 2 elements"), Error);
  CHECK_THROWS_WITH_AS(list.at("a"), doctest::Contains("JSON: a"), Error);
  CHECK_THROWS_WITH_AS(object.begin(), doctest::Contains("found {\"a\":1}, wanted a list"), Error);
  CHECK_THROWS_WITH_AS(object["a"].text(), doctest::Contains("found 1, wanted a string"), Error);
  CHECK_THROWS_WITH_AS(list.get<bool>(), doctest::Contains("found [1,2], wanted true or false"), Error);
  CHECK_THROWS_WITH_AS(json("1").get<double>(), doctest::Contains("found \"1\", wanted a number"), Error);
  CHECK_THROWS_WITH_AS(list.items(), doctest::Contains("wanted an object"), Error);
  CHECK_THROWS_AS((json{1, "x"}.get<std::vector<int>>()), Error);
  CHECK(list.get<std::vector<std::int64_t>>() == std::vector<std::int64_t>{1, 2});
}

TEST_CASE("a double becomes an integer only where one holds it") {
  CHECK(json(-2.5).get<int>() == -2);
  CHECK(json(-0.5).get<std::uint64_t>() == 0);
  CHECK(json(9223372036854774784.0).get<std::int64_t>() == 9223372036854774784);
  CHECK(json(-0x1p63).get<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
  CHECK(json(18446744073709549568.0).get<std::uint64_t>() == 18446744073709549568U);
  for (const double x : {0x1p63, -0x1.0000000000001p63, 1e300, std::nan("")})
    CHECK_THROWS_WITH_AS(json(x).get<std::int64_t>(), doctest::Contains("wanted a number that an integer holds"),
                         Error);
  for (const double x : {0x1p64, -1.0}) CHECK_THROWS_AS(json(x).get<std::uint64_t>(), Error);
}

TEST_CASE("numbers are read to the last bit, integers as integers") {
  CHECK(parse_json("7", "x") == 7);
  CHECK(parse_json("7", "x").is_number_unsigned());
  CHECK_FALSE(parse_json("-7", "x").is_number_unsigned());
  CHECK(parse_json("-7", "x").is_number_integer());
  CHECK(parse_json("18446744073709551615", "x").get<std::uint64_t>() == most);
  CHECK(parse_json("18446744073709551616", "x").is_number_float());
  CHECK(parse_json("-9223372036854775808", "x") == std::numeric_limits<std::int64_t>::min());
  CHECK(parse_json("-9223372036854775809", "x").is_number_float());
  CHECK(parse_json("9007199254740993.0", "x").get<double>() == 9007199254740992.0);
  CHECK(parse_json("0.1000000000000000055511151231257827021181583404541015625", "x") == 0.1);
  CHECK(parse_json("2.2250738585072011e-308", "x") == 2.2250738585072011e-308);
  CHECK(parse_json("4.9406564584124654e-324", "x") == 5e-324);
  CHECK(parse_json("0e-99999999999999999999", "x") == 0);
  // What a faster reader rounds wrongly.
  CHECK(parse_json("190645104490586.13435938104411081292", "x") == 190645104490586.13435938104411081292);
  CHECK(parse_json("49407060245351663.5451120629989157040", "x") == 49407060245351663.5451120629989157040);
  CHECK(parse_json("184467440737095516159223372036854775808", "x") == 184467440737095516159223372036854775808.0);
  for (const char* text : {"1e400", "-1e309", "1e-400", "1e99999999999999999999"}) refuse(text, "x: found ");
}

TEST_CASE("text that is no JSON is refused, with the place") {
  refuse("", "x: found a parse error at line 1, column 1: The document is empty., wanted valid JSON");
  refuse("{\n \"a\": }", "line 2, column 7: Invalid value.");
  for (const char* text : {"[1,]",        "{\"a\":1,}",   "[1 2]",
                           "{\"a\" 1}",   "{a:1}",        "{'a':1}",
                           "nul",         "truer",        "NaN",
                           "Infinity",    "[-Infinity]",  "01",
                           "1.",          ".5",           "-",
                           "+1",          "1e",           "0x1",
                           "[1]]",        "{} {}",        "// x\n1",
                           "1 /* x */",   "\"",           "\"\\x\"",
                           "\"\\u12g4\"", "\"a\nb\"",     "\"\x01\"",
                           "\"\xff\"",    "\"\xC0\x80\"", "\"\xED\xA0\x80\"",
                           "\"\\ud800\"", "\"\\ud800x\"", "\"\\ud800\\u0041\""}) {
    refuse(text, "x: found a parse error at line ");
  }
  refuse(R"("\udc00")", "x: found half a surrogate pair");
  refuse(R"({"\udc00\ud800":1})", "x: found ");
  CHECK(parse_json(R"("\ud83d\ude00\u00e9")", "x") == "\xF0\x9F\x98\x80\xC3\xA9");
}

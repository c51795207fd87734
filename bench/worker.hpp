#pragma once
/// \file
/// A program that steps when it is told to, so that another can take turns with it: a line of standard input is a step,
/// and a line of JSON on standard output what it took and gave. The first line says what is run.
/// defines: bench::Json, bench::max_rss_kib, bench::serve

#include <sys/resource.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <k3spec/core/extents.hpp>

namespace k3spec::bench {

/// One flat JSON object.
class Json {
 public:
  Json& add(std::string_view name, const std::string& text) { return raw(name, '"' + text + '"'); }
  Json& add(std::string_view name, const char* text) { return add(name, std::string(text)); }
  Json& add(std::string_view name, bool value) { return raw(name, value ? "true" : "false"); }
  Json& add(std::string_view name, index_t value) { return raw(name, std::to_string(value)); }
  Json& add(std::string_view name, int value) { return raw(name, std::to_string(value)); }
  Json& add(std::string_view name, double value) { return raw(name, number(value)); }
  template <class T>
  Json& add(std::string_view name, const std::optional<T>& value) {
    return value ? add(name, *value) : raw(name, "null");
  }
  template <class T>
  Json& add(std::string_view name, const std::vector<T>& values) {
    std::string list;
    for (const T& value : values) {
      list += list.empty() ? "" : ", ";
      if constexpr (std::is_floating_point_v<T>) {
        list += number(value);
      } else {
        list += std::to_string(value);
      }
    }
    return raw(name, '[' + list + ']');
  }

  void print() const {
    std::printf("{%s}\n", members_.c_str());
    std::fflush(stdout);
  }

 private:
  static std::string number(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.17g", value);
    return text.data();
  }
  Json& raw(std::string_view name, const std::string& value) {
    if (!members_.empty()) members_ += ", ";
    members_ += '"' + std::string(name) + "\": " + value;
    return *this;
  }

  std::string members_;
};

/// The most memory that this process has had in use.
inline index_t max_rss_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<index_t>(usage.ru_maxrss);
}

/// Prints `about`, and then for each line of input runs `step`, which adds what it gave to the answer, until the input
/// ends.
inline void serve(const Json& about, const std::function<void(Json&)>& step) {
  about.print();
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c != '\n') continue;
    Json answer;
    const auto begin = std::chrono::steady_clock::now();
    step(answer);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    answer.add("seconds", took.count()).add("max_rss_kib", max_rss_kib());
    answer.print();
  }
}

}  // namespace k3spec::bench

#pragma once
/// \file
/// The promise that a change of shape changes no number: what the tests compute on fixed inputs is hashed, bit for bit,
/// and compared with `tests/golden/bits.txt`. A line there is a hash and what it is of. Where a change is meant to move
/// a last bit, its commit says which and why and renews those lines alone:
///
///     K3SPEC_GOLDEN_OUT=found.txt ctest --test-dir build ...   # appends what was found, and fails nothing
///
/// Same bits are a promise for every instruction set, and per C library: the table's first line is a hash of what it
/// answers for exp, log, sin and the like; a build for which that differs checks nothing, and says so. Names that tests
/// make of types are without the namespace that the instruction set has.
/// defines: test::BitHash, test::golden_build, test::golden_name, test::GoldenTable

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include <k3spec/core/format.hpp>
#include <k3spec/core/instruction_set.hpp>

namespace k3spec::test {

/// FNV-1a over bytes; a number is its 8 bytes as a double, all NaNs alike.
class BitHash {
 public:
  BitHash& bytes(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
    return *this;
  }
  BitHash& word(std::uint64_t bits) {
    for (int i = 0; i < 64; i += 8) byte(static_cast<unsigned char>(bits >> i));
    return *this;
  }
  template <class Range>
  BitHash& numbers(const Range& range) {
    for (const auto x : range) number(static_cast<double>(x));
    return *this;
  }
  /// The data of a safetensors file's text, without its header, whose words may change.
  BitHash& tensors(std::string_view file) {
    std::uint64_t header = file.size();
    if (file.size() >= 8) std::memcpy(&header, file.data(), 8);
    if (file.size() < 8 || header > file.size() - 8) return bytes("no safetensors file");
    return bytes(file.substr(8 + header));
  }
  BitHash& number(double x) { return word(std::isnan(x) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(x)); }
  std::uint64_t value() const { return hash_; }

 private:
  void byte(unsigned char b) { hash_ = (hash_ ^ b) * 0x100000001b3; }

  std::uint64_t hash_ = 0xcbf29ce484222325;
};

/// What same bits are promised for: the C library's mathematics.
inline std::string golden_build() {
  using Function = double (*)(double);
  // Through pointers that the compiler may not see through: it would compute some itself.
  const Function volatile functions[] = {std::exp,   std::log,   std::sin,  std::cos,  std::tanh,
                                         std::log1p, std::expm1, std::cbrt, std::sqrt, std::erf};
  double (*const volatile power)(double, double) = std::pow;
  float (*const volatile single[])(float) = {std::exp, std::log, std::tanh, std::log1p};
  BitHash probe;
  for (int i = 1; i <= 200; ++i) {
    const double x = i * 0.0379, y = i * 1.1e-7;
    for (const auto& f : functions) probe.number(f(x)).number(f(y));
    for (const auto& f : single) probe.number(static_cast<double>(f(static_cast<float>(x))));
    probe.number(power(x, 1.7)).number(power(10000, -x));
  }
  return fmt::format("{:016x}", probe.value());
}

/// A name without the namespace of this unit's instruction set.
inline std::string golden_name(std::string name) {
#define K3SPEC_TEXT_OF(x) #x
#define K3SPEC_TEXT(...) K3SPEC_TEXT_OF((__VA_ARGS__))
  const std::string opened = K3SPEC_TEXT(K3SPEC_NAMESPACE);  // "(k3spec::inline x86_64_v3)"
#undef K3SPEC_TEXT
#undef K3SPEC_TEXT_OF
  const std::size_t at = opened.rfind(' ') + 1;
  const std::string own = opened.substr(at, opened.size() - 1 - at) + "::";
  for (std::size_t i = 0; (i = name.find(own, i)) != std::string::npos;) name.erase(i, own.size());
  return name;
}

class GoldenTable {
 public:
  static constexpr const char* file = K3SPEC_SOURCE_DIR "/tests/golden/bits.txt";

  explicit GoldenTable(const std::string& path = file) {
    std::ifstream in(path);
    std::getline(in, build_);
    for (std::string line; std::getline(in, line);) {
      if (line.size() > 17) lines_[line.substr(17)] = line.substr(0, 16);
    }
  }

  /// \returns nothing when all is well, or what to say
  std::string check(const std::string& given, std::uint64_t hash) const {
    const std::string name = golden_name(given);
    const std::string found = fmt::format("{:016x}", hash);
    if (const char* out = std::getenv("K3SPEC_GOLDEN_OUT")) {
      std::ofstream(out, std::ios::app) << found + ' ' + name + '\n' << std::flush;
      return {};
    }
    if (!applies()) return {};
    const auto line = lines_.find(name);
    if (line != lines_.end() && line->second == found) return {};
    return fmt::format("golden bits of '{}': found {}, wanted {}", name, found,
                       line == lines_.end() ? "a line in bits.txt" : line->second);
  }
  /// Is the table of a build like this one?
  bool applies() const { return build_ == golden_build(); }
  const std::string& build() const { return build_; }

 private:
  std::string build_;
  std::map<std::string, std::string> lines_;
};

/// The table of the project, read once.
inline const GoldenTable& golden_table() {
  static const GoldenTable table;
  return table;
}

}  // namespace k3spec::test

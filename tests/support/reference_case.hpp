#pragma once
/// \file
/// Reference values, and a comparison that forgets nothing: every parameter must be read, every output and gradient
/// compared, and no name used that the file lacks. The bits of all that was compared are those of
/// tests/golden/bits.txt.
///
///     auto ref = test::ReferenceCase::load("cases/rms_norm");
///     ref.fill<Layer>(weights);                              // param.*
///     const auto x = ref.values<double>("input.x");
///     ...
///     ref.compare("output.y", y, 1e-10);
///     ref.compare_gradients<Layer>(d_weights, 1e-10);        // grad.param.*
///     ref.compare("grad.input.x", d_x, 1e-10);
///     ref.finish();
///
/// defines: test::ReferenceCase, test::relative_error

#include <doctest/doctest.h>

#include <cmath>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <tests/support/golden_check.hpp>
#include <k3spec/core/format.hpp>
#include <k3spec/io/json.hpp>
#include <k3spec/io/load_parameters.hpp>
#include <k3spec/io/safetensors.hpp>

namespace k3spec::test {

/// max|a - b| / max|b|, NaN when either has one; `wanted` of nothing but zeros asks for zeros.
inline double relative_error(const std::vector<double>& found, const std::vector<double>& wanted) {
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double e = std::abs(found[i] - wanted[i]);
    if (std::isnan(e)) return e;
    error = std::max(error, e);
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return error / std::max(largest, std::numeric_limits<double>::min());
}

class ReferenceCase {
 public:
  /// \param name  below tests/data, without the extension: "cases/rms_norm"; or a path from the root, with it
  static ReferenceCase load(const std::string& name) {
    return ReferenceCase(
        std::filesystem::path(name).is_absolute() ? name : K3SPEC_SOURCE_DIR "/tests/data/" + name + ".safetensors");
  }
  ReferenceCase(const ReferenceCase&) = delete;
  ReferenceCase& operator=(const ReferenceCase&) = delete;
  ~ReferenceCase() {
    if (compared_.empty() || finished_ || std::uncaught_exceptions() > 0) return;
    FAIL_CHECK(file_.path(), ": compared, but never finished: what was forgotten is not known");
  }

  /// The metadata entry `key`, which is JSON; its `config` by default.
  io::json config(const std::string& key = "config") const {
    const auto at = file_.metadata().find(key);
    if (at == file_.metadata().end()) throw Error(file_.path() + ": __metadata__", "no '" + key + "'", "one");
    return io::parse_json(at->second, file_.path() + ": " + key);
  }
  const io::SafetensorsFile& file() const { return file_; }
  bool contains(const std::string& name) const { return file_.contains(name); }
  const std::vector<index_t>& shape(const std::string& name) const { return file_.shape(name); }

  /// All elements of a tensor by its full name, `param.fc.weight` or `input.ids`. Fractions as an element type,
  /// integers (below 2^53) and booleans as any arithmetic type.
  template <class T>
  std::vector<T> values(const std::string& name) {
    read_.insert(name);
    if constexpr (Element<T>) {
      if (is_fraction(file_.dtype(name))) return file_.template read<T>(name);
    } else {
      require(!is_fraction(file_.dtype(name)), name, k3spec::name(file_.dtype(name)), "integers or booleans");
    }
    std::vector<T> out;
    for (const double x : as_doubles(name))
      out.push_back(static_cast<T>(static_cast<std::conditional_t<std::is_same_v<T, bfloat16>, float, T>>(x)));
    return out;
  }

  /// Reads param.* into a layer, `at` being where it stands in the file's names.
  template <class Layer, class Weights>
  void fill(Weights& weights, const Path& at = {}) {
    for (const io::TensorSlot& slot : io::slots<Layer>(weights, at)) {
      const std::string name = "param." + slot.name;
      file_.check(name, slot.shape, slot.dtype);
      io::convert(file_.dtype(name), file_.read_bytes(name), slot.dtype, slot.data);
      read_.insert(name);
    }
  }

  /// Compares elements of any type with the tensor; a fault is kept for finish().
  /// \returns the relative error (infinite when the tensor is absent or of another size)
  template <class T>
  double compare(const std::string& name, const T* found, index_t count, double tolerance) {
    std::vector<double> values;
    for (index_t i = 0; i < count; ++i) values.push_back(static_cast<double>(found[i]));
    return compare_values(name, values, tolerance);
  }
  /// The shape must agree, too.
  template <class T, index_t... E>
  double compare(const std::string& name, const View<T, E...>& found, double tolerance) {
    if (contains(name) && io::shape_of(found) != shape(name)) {
      fault(name, "shape " + io::shape_string(io::shape_of(found)), io::shape_string(shape(name)));
    }
    std::vector<double> values;
    for (index_t i = 0; i < found.extent(0); ++i) {
      for (index_t j = 0; j < found.row_size(); ++j) values.push_back(static_cast<double>(found.row(i)[j]));
    }
    return compare_values(name, values, tolerance);
  }
  double compare(const std::string& name, const std::vector<double>& found, double tolerance) {
    return compare_values(name, found, tolerance);
  }
  /// A tensor of one element.
  double compare(const std::string& name, double found, double tolerance) {
    return compare_values(name, {found}, tolerance);
  }

  /// grad.param.* of a layer. Frozen parameters have no gradient: their tensors are left for the caller.
  template <class Layer, class Weights>
  void compare_gradients(Weights& gradients, double tolerance, const Path& at = {}) {
    Layer::visit(gradients, at, [&](const Path& path, auto& view, auto) {
      if (view.data() != nullptr) compare("grad.param." + path.str(), view, tolerance);
    });
  }

  /// Says that a tensor has no counterpart, and why.
  void omit(const std::string& name, const std::string& /*why*/) {
    if (!contains(name)) fault(name, "no such tensor to omit", "one");
    omitted_.insert(name);
  }

  /// \throws Error listing every fault: values that differ, names the file lacks, tensors that were forgotten
  void finish() {
    finished_ = true;
    for (const auto& [name, info] : file_.tensors()) {
      if (omitted_.count(name) != 0) continue;
      if (starts_with(name, "param.") && read_.count(name) == 0) fault(name, "it never read", "every parameter used");
      if (is_result(name) && compared_.count(name) == 0) fault(name, "it never compared", "every result compared");
    }
    check_bits();
    if (!faults_.empty()) throw Error(file_.path(), faults_, "none of it");
  }

 private:
  explicit ReferenceCase(const std::filesystem::path& path) : file_(io::SafetensorsFile::open(path)) {}

  static bool starts_with(const std::string& name, std::string_view prefix) { return name.rfind(prefix, 0) == 0; }
  static bool is_result(const std::string& name) { return starts_with(name, "output.") || starts_with(name, "grad."); }
  static bool is_fraction(DType t) { return io::can_convert(t, DType::F64); }

  std::vector<double> as_doubles(const std::string& name) const {
    const DType t = file_.dtype(name);
    if (is_fraction(t)) return file_.read<double>(name);
    std::vector<double> out;
    if (t == DType::BOOL || t == DType::U8) {
      for (const std::byte b : file_.read_bytes(name)) out.push_back(std::to_integer<int>(b));
    } else {
      for (const std::int64_t x : file_.read<std::int64_t>(name)) out.push_back(static_cast<double>(x));
    }
    return out;
  }

  double compare_values(const std::string& name, const std::vector<double>& found, double tolerance) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    if (!compared_.insert(name).second) fault(name, "it compared twice", "once");
    if (!contains(name)) return fault(name, "no such tensor", "one to compare with"), infinity;
    const std::vector<double> wanted = as_doubles(name);
    if (found.size() != wanted.size()) {
      return fault(name, std::to_string(found.size()) + " elements", std::to_string(wanted.size())), infinity;
    }
    BitHash hash;
    for (const double x : found) hash.number(x);
    bits_[name] = hash.value();
    const double error = relative_error(found, wanted);
    if (!(error <= tolerance)) fault(name, fmt::format("error {:.3g}", error), fmt::format("<= {:.3g}", tolerance));
    return error;
  }

  /// Of the files of the project: the bits of all results, in the order of their names.
  void check_bits() {
    static std::map<std::string, int> times;
    const std::string data = K3SPEC_SOURCE_DIR "/tests/data/", path = file_.path();
    if (!starts_with(path, data)) return;
    std::string name = path.substr(data.size());
    name += fmt::format(" #{}", ++times[doctest::getContextOptions()->currentTest->m_name + name]);
    BitHash hash;
    for (const auto& [tensor, bits] : bits_) hash.bytes(tensor).word(bits);
    check_golden(hash, name);
  }

  void fault(const std::string& name, const std::string& found, const std::string& wanted) {
    faults_ += "\n  " + name + ": found " + found + ", wanted " + wanted;
  }

  io::SafetensorsFile file_;
  std::set<std::string> read_, compared_, omitted_;
  std::map<std::string, std::uint64_t> bits_;  ///< of what was compared, by name
  std::string faults_;
  bool finished_ = false;
};

}  // namespace k3spec::test

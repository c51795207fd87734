#pragma once
/// \file
/// Comparisons as a table.
/// defines: testing::Report

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/testing/compare.hpp>
#include <k3spec/testing/dump.hpp>

namespace K3SPEC_NAMESPACE::testing {

/// Rows of comparisons. `report.ok()` and `report.text()` are what any test framework, or a plain main, asks for.
class Report {
 public:
  const std::vector<Row>& rows() const { return rows_; }
  /// Whether there are rows, and all are ok: a report of nothing says nothing.
  bool ok() const {
    return !rows_.empty() && std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.ok; });
  }

  /// Takes a row over. \returns it
  const Row& add(Row row) {
    rows_.push_back(std::move(row));
    return rows_.back();
  }
  /// Takes over another report's.
  void add(const Report& other) { rows_.insert(rows_.end(), other.rows_.begin(), other.rows_.end()); }

  /// Compares a view, a span or a Tensor<double> with a dump's tensor. One that the dump lacks is a row that is not ok.
  template <class Found>
  const Row& compare(const Dump& dump, const std::string& name, const Found& found, const Tolerance& tolerance = {}) {
    try {
      return add(testing::compare(name, found, dump.numbers(name), tolerance));
    } catch (const Error& e) {
      return fault(name, fmt::format("found {}, wanted {}", e.found(), e.wanted()));
    }
  }
  /// The same of a tensor that was read, or made like one.
  template <class T>
  const Row& compare(const Dump& dump, const std::string& name, const Tensor<T>& found,
                     const Tolerance& tolerance = {}) {
    Tensor<double> numbers{found.name, found.shape, {}, dtype_of<T>};
    for (const T x : found.values) numbers.values.push_back(static_cast<double>(x));
    return compare<Tensor<double>>(dump, name, numbers, tolerance);
  }

  /// Compares all tensors of a layer's Weights, `weight` being `prefix` + "weight" of the dump: parameters, or
  /// gradients, of which there are none of frozen parameters.
  template <class Layer, class Weights>
  void compare_all(const Dump& dump, const std::string& prefix, Weights weights, const Tolerance& tolerance = {}) {
    Layer::visit(weights, Path{}, [&](const Path& path, auto& view, auto) {
      if (view.data() != nullptr) compare(dump, prefix + path.str(), view, tolerance);
    });
  }

  /// A row that is not ok for each tensor of the dump whose name begins with one of these and that no row has.
  void require_all(const Dump& dump, const std::vector<std::string>& prefixes = {"output.", "grad."}) {
    for (const std::string& name : dump.names()) {
      const auto begins = [&](const std::string& prefix) { return name.starts_with(prefix); };
      const auto has = [&](const Row& row) { return row.name == name; };
      if (!std::any_of(prefixes.begin(), prefixes.end(), begins)) continue;
      if (std::none_of(rows_.begin(), rows_.end(), has)) fault(name, "never compared");
    }
  }

  /// A row that is not ok and says why.
  const Row& fault(std::string name, std::string note) {
    Row row{std::move(name)};
    row.note = std::move(note), row.ok = false;
    return add(std::move(row));
  }

  /// The table: a line for each row, then how many are ok.
  std::string text() const {
    std::vector<Cells> table{
        {"", "tensor", "shape", "max abs", "relative", "cosine", "ulp", "bad", "first bad; what else"}};
    index_t good = 0;
    for (const Row& row : rows_) table.push_back(cells(row)), good += row.ok ? 1 : 0;
    std::string out = lines(table);
    if (rows_.empty()) return out + "nothing compared\n";
    return out + fmt::format("{} of {} ok\n", good, rows_.size());
  }

 private:
  static constexpr std::size_t columns = 9;
  using Cells = std::array<std::string, columns>;

  static std::string last_cell(const Row& row) {
    std::string text;
    if (row.bad > 0) {
      text = fmt::format("{}: found {:.9g}, wanted {:.9g}", io::shape_string(row.first_bad), row.found, row.wanted);
      if (!row.note.empty()) text += "; ";
    }
    return printable(text + row.note);
  }

  static std::string ulps(std::uint64_t n) {
    return n < 1000000 ? std::to_string(n) : fmt::format("{:.2g}", static_cast<double>(n));
  }

  static Cells cells(const Row& row) {
    const std::string name = printable(row.name, 200), mark = row.ok ? "ok" : "BAD";
    if (!row.measured) return {mark, name, "", "", "", "", "", "", last_cell(row)};
    return {mark,
            name,
            io::shape_string(row.shape),
            fmt::format("{:.3g}", row.max_abs),
            fmt::format("{:.3g}", row.relative),
            fmt::format("{:.9f}", row.cosine),
            fmt::format("{} {}", ulps(row.ulps), k3spec::name(row.ulp_type)),
            std::to_string(row.bad),
            last_cell(row)};
  }

  static std::string lines(const std::vector<Cells>& table) {
    std::array<std::size_t, columns> widths{};
    for (const Cells& row : table) {
      for (std::size_t i = 0; i + 1 < columns; ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string out;
    for (const Cells& row : table) {
      std::string line;
      for (std::size_t i = 0; i < columns; ++i) {
        const bool number = i >= 3 && i <= 7;
        line += number ? fmt::format("{:>{}}  ", row[i], widths[i]) : fmt::format("{:<{}}  ", row[i], widths[i]);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + '\n';
    }
    return out;
  }

  std::vector<Row> rows_;
};

}  // namespace K3SPEC_NAMESPACE::testing

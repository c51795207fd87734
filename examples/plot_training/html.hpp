#pragma once
/// \file
/// A page that stands alone: its style is in it, it has no script, and its policy lets nothing be loaded.
/// defines: html_text, Table, page_beginning, page

#include <string>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/core/printable.hpp>
#include <k3spec/core/version.hpp>

namespace k3spec::examples {

/// A text as HTML, also within an attribute. HTML has no control characters: they are written out.
inline std::string html_text(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// A table of texts. The first row and the first column are headings.
struct Table {
  std::string caption;
  std::vector<std::vector<std::string>> rows;

  std::string html() const {
    std::string out = fmt::format("<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n<table>\n",
                                  html_text(caption));
    for (std::size_t row = 0; row < rows.size(); ++row) {
      out += row == 0 ? "<thead><tr>" : "<tr>";
      for (std::size_t column = 0; column < rows[row].size(); ++column) {
        const bool heads = row == 0 || column == 0;
        const char* scope = !heads ? "" : row == 0 ? " scope=\"col\"" : " scope=\"row\"";
        const char* tag = heads ? "th" : "td";
        out += fmt::format("<{}{}>{}</{}>", tag, scope, html_text(rows[row][column]), tag);
      }
      out += row == 0 ? "</tr></thead>\n" : "</tr>\n";
    }
    return out + "</table>\n</div>\n";
  }
};

namespace detail {

/// Colours that people tell apart who do not see red or green, darker on white and lighter on black; dashes besides.
inline constexpr const char* page_style = R"(
:root { color-scheme: light dark; --page: #f3f4f6; --card: #fff; --ink: #1c1f24; --soft: #5a616b; --grid: #dfe2e6;
  --c0: #0072b2; --c1: #c8500a; --c2: #00845f; --c3: #b04a86; --c4: #3d3d3d; --c5: #8f6b00; }
@media (prefers-color-scheme: dark) {
  :root { --page: #101216; --card: #1a1d23; --ink: #e8eaed; --soft: #a4abb6; --grid: #343942;
    --c0: #56b4e9; --c1: #ff8c42; --c2: #2fc597; --c3: #ee9cc8; --c4: #dcdcdc; --c5: #f0c94a; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1720px; padding: 16px 12px; background: var(--page); color: var(--ink);
  font: 16px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; }
h2 { font-size: 1.05rem; margin: 0 0 .3rem; }
p { margin: 0 0 .6rem; color: var(--soft); max-width: 75ch; }
.cards { display: grid; margin-bottom: 12px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 430px), 1fr)); gap: 12px; }
.card { background: var(--card); border-radius: 8px; padding: 12px; margin: 0; min-width: 0; }
section.card { margin-bottom: 12px; }
.tables { display: flex; flex-wrap: wrap; gap: 0 12px; }
.tables .card { flex: 1 1 auto; max-width: 100%; }
.card p { font-size: .85rem; margin: .3rem 0 0; }
figcaption { font-weight: 600; }
svg.chart { display: block; width: 100%; height: auto; font-size: 14px; overflow: visible; }
.chart text { fill: var(--ink); }
.grid { stroke: var(--grid); fill: none; }
.axis { stroke: var(--soft); fill: none; }
.curve { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.thin { stroke-width: 1; }
.dot { fill: var(--c); stroke: var(--c); stroke-width: 0; }
.dot:hover { stroke-width: 6; }
.s0 { --c: var(--c0); } .s1 { --c: var(--c1); } .s2 { --c: var(--c2); }
.s3 { --c: var(--c3); } .s4 { --c: var(--c4); } .s5 { --c: var(--c5); }
.d1 { stroke-dasharray: 8 3; } .d2 { stroke-dasharray: 2 3; } .d3 { stroke-dasharray: 9 3 2 3; }
.d4 { stroke-dasharray: 14 4; } .d5 { stroke-dasharray: 5 5; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 2px 16px; padding: 0; margin: .3rem 0 0;
  font-size: .85rem; }
.key { width: 34px; height: 10px; margin-right: 6px; vertical-align: middle; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
th, td { padding: 3px 10px 3px 0; text-align: right; border-bottom: 1px solid var(--grid); font-weight: 400; }
td { white-space: nowrap; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--card); max-width: 14em; }
thead th { font-weight: 600; vertical-align: bottom; max-width: 12em; }
@media (max-width: 600px) { table { font-size: .8rem; } th:first-child { max-width: 9em; } }
summary { cursor: pointer; }
ul.absent { margin: 0; padding-left: 1.2rem; }
)";

}  // namespace detail

/// How each page of this program begins, and no other does.
inline constexpr const char* page_beginning =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"generator\" content=\"plot_training of k3spec\">\n";

/// \param body  HTML
inline std::string page(const std::string& title, const std::string& body) {
  std::string out = page_beginning;
  out +=
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src data:\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<link rel=\"icon\" href=\"data:,\">\n";
  out += fmt::format("<title>{}</title>\n<style>{}</style>\n</head>\n<body>\n", html_text(title), detail::page_style);
  out += body;
  return out + fmt::format("<footer><p>Drawn by plot_training of k3spec {}.</p></footer>\n</body>\n</html>\n",
                           K3SPEC_VERSION);
}

}  // namespace k3spec::examples

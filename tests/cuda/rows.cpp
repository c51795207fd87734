// Rows and columns that are moved, gathered, scattered and shifted on Cuda: Cpu's bits, and nothing beside them.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include <tests/cuda/layout.hpp>
#include <k3spec/batches/teacher.hpp>
#include <k3spec/drafts/shift_ids_left.hpp>
#include <k3spec/ops/gather_columns.hpp>
#include <k3spec/ops/gather_rows.hpp>
#include <k3spec/ops/move_rows.hpp>

using namespace k3spec;
using test::check_both;
using test::Layout;
using test::Strided;

namespace {

/// f(a layout of `rows` rows) for odd widths, aligned rows and others.
template <class F>
void for_widths(index_t rows, F&& f) {
  for (const index_t n : {1, 7, 33, 264}) f(Layout{rows, n}), f(Layout{rows, n, 1, 3});
}

/// As many rows as wide, aligned where the others are not, and the reverse.
Layout unlike(const Layout& x) { return {x.rows, x.n, 1 - x.offset, 3 - x.gap}; }

/// n of the numbers 0 … count-1, all different: the first ones times a step, around in a circle.
std::vector<index_t> different(index_t n, index_t count) {
  std::vector<index_t> all;
  const index_t step = count % 7 == 0 ? 5 : 7;
  for (index_t i = 0; i < n; ++i) all.push_back((i + 1) * step % count);
  return all;
}

/// Row i of the first to the `to`-th one.
template <class D>
struct Moves {
  k3spec::Mirror<D> memory;
  Mirrored<D, RowMove> all;

  explicit Moves(const std::vector<index_t>& from, const std::vector<index_t>& to)
      : memory(test::device<D>(), sizeof(RowMove) * (from.size() + 8)),
        all(memory.template take<RowMove>(static_cast<index_t>(from.size()))) {
    for (std::size_t i = 0; i < from.size(); ++i) all.host(static_cast<index_t>(i)) = {from[i], to[i]};
    memory.upload(test::device<D>());
  }
};

/// Gathered, then scattered, of `count` rows.
template <class T, class D>
std::vector<double> there_and_back(const Layout& layout, index_t count) {
  const auto& device = test::device<D>(2);
  Layout table = layout;
  table.rows = count;
  test::Mirror<index_t, D> ids(different(layout.rows, count));
  Strided<T, D> from(table, 1);
  Strided<T, D> to(unlike(layout), 2);
  Strided<T, D> back(table, 3);
  using Ids = Vector<const element_t<D, index_t>>;
  gather_rows(device, Ids(ids.vector()), from.matrix(), to.matrix());
  scatter_rows(device, Ids(ids.vector()), to.matrix(), back.matrix());
  auto all = to.get();
  for (const double v : back.get()) all.push_back(v);
  return all;
}

template <class T>
Vector<const element_t<Cuda, T>> constant(test::Mirror<T, Cuda>& m) {
  return m.vector();
}

}  // namespace

TEST_CASE_TEMPLATE("rows moved: Cpu's bits, and nothing between the rows is touched", T, float, double, bfloat16) {
  for (const index_t rows : {0, 1, 31, 300}) {
    for_widths(rows, [&](const Layout& layout) {
      CAPTURE(rows);
      CAPTURE(layout.n);
      check_both([&]<class D>(std::type_identity<D>) {
        Layout wide = layout;
        wide.rows += 5;
        Strided<T, D> from(wide, 1), to(unlike(wide), 2);
        std::vector<index_t> places(static_cast<std::size_t>(rows));
        std::iota(places.begin(), places.end(), 5);
        // One move more than is asked for.
        places.push_back(0);
        auto sources = different(rows, rows + 5);
        sources.push_back(4);
        const Moves<D> moves(sources, places);
        move_rows(test::device<D>(2), moves.all, rows, from.matrix(), to.matrix());
        return to.get();
      });
    });
  }
}

TEST_CASE("more rows than a grid's second axis has blocks") {
  check_both([]<class D>(std::type_identity<D>) {
    constexpr index_t rows = 70000;
    const auto& device = test::device<D>(2);
    Strided<bfloat16, D> from({rows, 1, 1}, 1), to({rows, 1}, 2);
    std::vector<index_t> places(rows), sources(rows);
    for (index_t i = 0; i < rows; ++i) {
      const auto n = static_cast<std::size_t>(i);
      sources[n] = i, places[n] = rows - 1 - i;
    }
    const Moves<D> moves(sources, places);
    move_rows(device, moves.all, rows, from.matrix(), to.matrix());
    return to.get();
  });
}

TEST_CASE("columns spread over a vocabulary stand where they are to; all others are as they were") {
  check_both([]<class D>(std::type_identity<D>) {
    const auto& device = test::device<D>();
    Strided<float, D> from({3, 37, 1, 2}, 1), to({4, 100, 3, 1}, 2);
    test::Mirror<index_t, D> columns(different(37, 100));
    const Moves<D> moves({2, 0, 1}, {0, 3, 2});
    spread_rows(device, moves.all, 3, Vector<const element_t<D, index_t>>(columns.vector()), from.matrix(),
                to.matrix());
    return to.get();
  });
  // By hand: row 1 of two, to columns 2 and 0.
  const Cuda& cuda = test::device<Cuda>();
  test::Mirror<float, Cuda> from(std::vector<float>{1, 2, 3, 4}), to(std::vector<float>(3, 9.0f));
  test::Mirror<index_t, Cuda> columns(std::vector<index_t>{2, 0});
  const Moves<Cuda> moves({1}, {0});
  spread_rows(cuda, moves.all, 1, constant(columns), from.matrix(2), to.matrix(3));
  CHECK(to.get() == std::vector<float>{4, 9, 3});
  // One that is no column is left out, and told of.
  columns.put({3, 1});
  spread_rows(cuda, moves.all, 1, constant(columns), from.matrix(2), to.matrix(3));
  CHECK_THROWS_WITH_AS(cuda.synchronize(), doctest::Contains("token id at row 0"), Error);
  CHECK(to.get() == std::vector<float>{4, 4, 3});
}

TEST_CASE_TEMPLATE("rows gathered and scattered again: Cpu's bits, nothing else touched", T, float, double, bfloat16) {
  for (const index_t rows : {0, 1, 31, 300}) {
    for_widths(rows, [&](const Layout& layout) {
      CAPTURE(rows);
      CAPTURE(layout.n);
      check_both([&]<class D>(std::type_identity<D>) { return there_and_back<T, D>(layout, rows + 11); });
    });
  }
}

TEST_CASE("scattered ids that are no row: what is there stays, and synchronize names the first such row") {
  const Cuda& cuda = test::device<Cuda>();
  for (const index_t wrong : {-1, 4}) {
    test::Mirror<index_t, Cuda> ids(std::vector<index_t>{2, wrong, 0, wrong});
    test::Mirror<double, Cuda> from(std::vector<double>{1, 2, 3, 4}), to(std::vector<double>(4, 7.0));
    scatter_rows(cuda, constant(ids), from.matrix(1), to.matrix(1));
    CHECK_THROWS_WITH_AS(cuda.synchronize(), doctest::Contains("token id at row 1"), Error);
    CHECK(to.get() == std::vector<double>{3, 7, 1, 7});
  }
}

TEST_CASE("columns gathered: Cpu's bits, in the result's type; one that is none is NaN, and told of") {
  for (const index_t rows : {0, 1, 33}) {
    for (const index_t n : {0, 1, 7, 300}) {
      check_both([&]<class D>(std::type_identity<D>) {
        const auto& device = test::device<D>(2);
        Strided<bfloat16, D> from({rows, 311, 1, 2}, 1);
        Strided<float, D> to({rows, n, 3, 1}, 2);
        Strided<double, D> wide({rows, 311}, 4), also({rows, n}, 3);
        test::Mirror<index_t, D> columns(different(n, 311));
        const Vector<const element_t<D, index_t>> which(columns.vector());
        gather_columns(device, which, Matrix<const element_t<D, bfloat16>>(from.matrix()), to.matrix());
        gather_columns(device, which, Matrix<const element_t<D, double>>(wide.matrix()), also.matrix());
        auto all = to.get();
        for (const double v : also.get()) all.push_back(v);
        return all;
      });
    }
  }
  const Cuda& cuda = test::device<Cuda>();
  using From = Matrix<const element_t<Cuda, float>>;
  test::Mirror<float, Cuda> from(std::vector<float>{1, 2, 3, 4}), to(std::vector<float>(6));
  for (const index_t wrong : {-1, 2}) {
    test::Mirror<index_t, Cuda> columns(std::vector<index_t>{1, wrong, 0});
    gather_columns(cuda, constant(columns), From(from.matrix(2)), to.matrix(3));
    CHECK_THROWS_WITH_AS(cuda.synchronize(), doctest::Contains("token id at row 1"), Error);
    CHECK(test::same_bits(to.get(), {2, NAN, 1, 4, NAN, 3}));
  }
}

TEST_CASE_TEMPLATE("states shifted in place: Cpu's bits", T, float, double, bfloat16) {
  for (const auto& [sequences, length] :
       {std::pair<index_t, index_t>{0, 3}, {1, 1}, {1, 2}, {3, 8}, {2, 9}, {1, 17}, {40, 10}}) {
    const index_t rows = sequences * length, each = length;
    for_widths(rows, [&](const Layout& layout) {
      CAPTURE(rows);
      CAPTURE(layout.n);
      check_both([&]<class D>(std::type_identity<D>) {
        Strided<T, D> x(layout, 1);
        shift_states_left(test::device<D>(2), x.matrix(), each);
        return x.get();
      });
    });
  }
}

TEST_CASE("ids shifted: Cpu's, 0 past a sequence's end") {
  for (const auto& [n, length] : {std::pair<index_t, index_t>{0, 3}, {1, 1}, {12, 4}, {12, 12}, {66000, 33}}) {
    std::vector<index_t> ids(static_cast<std::size_t>(n));
    std::iota(ids.begin(), ids.end(), 5);
    for (const index_t by : {0, 1, 3, 12}) {
      const index_t each = length;
      check_both([&]<class D>(std::type_identity<D>) {
        test::Mirror<index_t, D> from(ids), to(std::vector<index_t>(ids.size(), -7));
        shift_ids_left(test::device<D>(), Vector<const element_t<D, index_t>>(from.vector()), each, by, to.vector());
        return test::as_doubles(to.get());
      });
    }
  }
  test::Mirror<index_t, Cuda> from(std::vector<index_t>{1, 2, 3, 4, 5, 6}), to(std::vector<index_t>(6));
  shift_ids_left(test::device<Cuda>(), constant(from), 3, 2, to.vector());
  CHECK(to.get() == std::vector<index_t>{3, 0, 0, 6, 0, 0});
}

TEST_CASE("moved rows: one launch each, without a wait, and none for nothing") {
  const Cuda& cuda = test::device<Cuda>();
  test::Mirror<float, Cuda> x(std::vector<float>(6)), y(x.get());
  test::Mirror<index_t, Cuda> ids(std::vector<index_t>{1, 0}), more(ids.get());
  const Moves<Cuda> moves({0, 1}, {1, 0});
  using From = Matrix<const element_t<Cuda, float>>;
  for (const index_t n : {2, 0}) {
    const Vector<const element_t<Cuda, index_t>> rows(ids.vector().data(), n);
    const auto from = x.matrix(3).rows(0, n), to = y.matrix(3).rows(0, n);
    const long wanted = n == 0 ? 0 : 1;
    test::check_launches(wanted, [&] { move_rows(cuda, moves.all, n, x.matrix(3), y.matrix(3)); });
    test::check_launches(wanted,
                         [&] { spread_rows(cuda, moves.all, n, rows, x.matrix(3).columns(0, n), y.matrix(3)); });
    test::check_launches(wanted, [&] { gather_rows(cuda, rows, x.matrix(3), to); });
    test::check_launches(wanted, [&] { scatter_rows(cuda, rows, from, y.matrix(3)); });
    test::check_launches(wanted, [&] { gather_columns(cuda, rows, From(x.matrix(3)), y.matrix(3).columns(0, n)); });
    test::check_launches(wanted, [&] { shift_states_left(cuda, to, 2); });
    test::check_launches(wanted, [&] { shift_ids_left(cuda, rows, 2, 1, more.vector().rows(0, n)); });
  }
  test::check_launches(0, [&] { shift_states_left(cuda, y.matrix(3), 1); });
}

TEST_CASE("moved rows: host memory is refused") {
  const Cuda& cuda = test::device<Cuda>();
  std::vector<float> memory(6);
  std::vector<index_t> few(2);
  test::Mirror<float, Cuda> x(memory);
  test::Mirror<index_t, Cuda> ids(few);
  const auto host = test::taken_for_the_cards(Matrix<float>(memory.data(), 2, 3));
  const auto host_out = test::taken_for_the_cards(Vector<index_t>(few.data(), 2));
  const Vector<const element_t<Cuda, index_t>> host_ids = host_out;
  const Moves<Cuda> moves({0, 1}, {1, 0});
  const auto refuses = [](const char* what, auto&& call) {
    CHECK_THROWS_WITH_AS(call(), (std::string(what) + ": found host memory, wanted device memory").c_str(), Error);
  };
  refuses("move_rows: from", [&] { move_rows(cuda, moves.all, 2, host, x.matrix(3)); });
  refuses("move_rows: to", [&] { move_rows(cuda, moves.all, 2, x.matrix(3), host); });
  refuses("move_rows: columns", [&] { spread_rows(cuda, moves.all, 2, host_ids, x.matrix(2).rows(0, 2), host); });
  refuses("scatter_rows: rows", [&] { scatter_rows(cuda, host_ids, x.matrix(3), x.matrix(3)); });
  refuses("scatter_rows: from", [&] { scatter_rows(cuda, constant(ids), host, x.matrix(3)); });
  refuses("scatter_rows: to", [&] { scatter_rows(cuda, constant(ids), x.matrix(3), host); });
  using From = Matrix<const element_t<Cuda, float>>;
  const auto two = x.matrix(3).columns(0, 2);
  refuses("gather_columns: columns", [&] { gather_columns(cuda, host_ids, From(x.matrix(3)), two); });
  refuses("gather_columns: from", [&] { gather_columns(cuda, constant(ids), From(host), two); });
  refuses("gather_columns: to", [&] { gather_columns(cuda, constant(ids), From(x.matrix(3)), host.columns(0, 2)); });
  refuses("shift_states: x", [&] { shift_states_left(cuda, host, 2); });
  refuses("shift_ids_left: ids", [&] { shift_ids_left(cuda, host_ids, 2, 1, ids.vector()); });
  refuses("shift_ids_left: out", [&] { shift_ids_left(cuda, constant(ids), 2, 1, host_out); });
}

// Anchors: which positions are valid, which of them are drawn.
#include <k3spec/batches/anchors.hpp>

#include <doctest/doctest.h>

#include <filesystem>
#include <numeric>
#include <vector>

#include "tests/backend/allocations.hpp"
#include "tests/support/reference_case.hpp"

using namespace k3spec;

namespace {

using Mask = std::vector<std::uint8_t>;
using Ids = std::vector<index_t>;

template <class T>
Vector<const T> vector(const std::vector<T>& v) {
  return Vector<const T>(v.data(), static_cast<index_t>(v.size()));
}

/// The start and remaining of packed rows.
struct PackedRows {
  Ids start, remaining;
  PackedRows(const Ids& seq_lens, index_t sequences, index_t length)
      : start(static_cast<std::size_t>(sequences * length)), remaining(start.size()) {
    const Matrix<const index_t> lens(seq_lens.data(), sequences, static_cast<index_t>(seq_lens.size()) / sequences);
    document_bounds(lens, length, Vector<index_t>(start.data(), sequences * length),
                    Vector<index_t>(remaining.data(), sequences * length));
  }
  Documents documents() const { return {vector(start), vector(remaining)}; }
};

Mask valid_of(Slot slot, const BlockSpan& span, const Mask& loss_mask, const Documents& documents = {}) {
  const index_t positions = anchor_positions(slot, span);
  Mask valid(static_cast<std::size_t>(span.sequences * positions), 7);
  find_valid_anchors(slot, span, vector(loss_mask), documents,
                     Matrix<std::uint8_t>(valid.data(), span.sequences, positions));
  return valid;
}

struct Drawn {
  Ids anchors;
  Mask keep;
  index_t chosen;
};
Drawn sample(const Mask& valid, const std::vector<double>& keys, index_t sequences, index_t blocks) {
  const index_t positions = static_cast<index_t>(valid.size()) / sequences;
  const auto n = static_cast<std::size_t>(sequences * blocks);
  Drawn d{Ids(n, -1), Mask(n, 7), 0};
  Ids scratch(static_cast<std::size_t>(positions));
  d.chosen = sample_anchors(
      Matrix<const std::uint8_t>(valid.data(), sequences, positions),
      Matrix<const double>(keys.data(), sequences, positions), Matrix<index_t>(d.anchors.data(), sequences, blocks),
      Matrix<std::uint8_t>(d.keep.data(), sequences, blocks), Vector<index_t>(scratch.data(), positions));
  return d;
}

/// The stored anchors of one case.
void check_case(const std::filesystem::path& file) {
  CAPTURE(file.string());
  auto ref = test::ReferenceCase::load(file.string());
  const bool dflash = file.filename().string().rfind("dflash", 0) == 0;
  const Slot slot = dflash ? Slot::anchor_plus_k : Slot::anchor_plus_k_plus_1;
  const index_t sequences = ref.shape("input.input_ids")[0], length = ref.shape("input.input_ids")[1];
  const BlockSpan span{sequences, length, ref.shape("input.anchors")[1], ref.config()["block_size"]};
  CHECK(ref.shape("input.random_keys") == std::vector<index_t>{sequences, anchor_positions(slot, span)});
  Mask loss_mask;
  for (const double x : ref.values<double>("input.loss_mask")) loss_mask.push_back(x > 0.5 ? 1 : 0);
  PackedRows packed(ref.contains("input.seq_lens") ? ref.values<index_t>("input.seq_lens") : Ids{length, length},
                    sequences, length);
  Documents documents;
  if (ref.contains("input.seq_lens")) {
    documents = packed.documents();
    CHECK(packed.remaining == ref.values<index_t>("input.doc_remaining"));
  }
  const Drawn d = sample(valid_of(slot, span, loss_mask, documents), ref.values<double>("input.random_keys"), sequences,
                         span.blocks);
  CHECK(d.anchors == ref.values<index_t>("input.anchors"));
  CHECK(d.keep == ref.values<std::uint8_t>("input.keep"));
  CHECK(d.chosen == std::accumulate(d.keep.begin(), d.keep.end(), index_t{0}));
}

}  // namespace

TEST_CASE("anchors and keep of every reference case come from its keys") {
  int count = 0;
  for (const char* folder : {"cases", "cases_odd"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::string(K3SPEC_SOURCE_DIR "/tests/data/") + folder)) {
      const std::string name = entry.path().filename().string();
      if (name.rfind("dflash", 0) == 0 || name.rfind("dspark", 0) == 0) check_case(entry.path()), ++count;
    }
  }
  CHECK(count == 22);
}

TEST_CASE("DFlash: a supervised position with a whole block ahead") {
  const BlockSpan span{2, 7, 3, 4};
  const Mask mask{1, 0, 1, 1, 1, 1, 1, /**/ 0, 1, 0, 0, 0, 1, 1};
  CHECK(anchor_positions(Slot::anchor_plus_k, span) == 4);
  CHECK(valid_of(Slot::anchor_plus_k, span, mask) == Mask{1, 0, 1, 1, 0, 1, 0, 0});
  // Documents of 4 and 3, and of 3 and 4: a block of 4 begins at 0, and at 3 of the other row, which is not supervised.
  const PackedRows packed({4, 3, 3, 4}, 2, 7);
  CHECK(valid_of(Slot::anchor_plus_k, span, mask, packed.documents()) == Mask{1, 0, 0, 0, 0, 0, 0, 0});
  // Shorter than a block: position 0 is left.
  CHECK(valid_of(Slot::anchor_plus_k, {1, 3, 1, 4}, {1, 1, 1}) == Mask{1});
}

TEST_CASE("DSpark: a supervised position before a supervised one, in one document") {
  const BlockSpan span{2, 5, 3, 4};
  const Mask mask{1, 1, 0, 1, 1, /**/ 0, 1, 1, 1, 0};
  CHECK(valid_of(Slot::anchor_plus_k_plus_1, span, mask) == Mask{1, 0, 0, 1, 0, 1, 1, 0});
  const PackedRows packed({4, 1, 2, 3}, 2, 5);
  CHECK(valid_of(Slot::anchor_plus_k_plus_1, span, mask, packed.documents()) == Mask{1, 0, 0, 0, 0, 0, 1, 0});
  CHECK(valid_of(Slot::anchor_plus_k_plus_1, {1, 1, 1, 4}, {1}).empty());
  for (const Slot slot : {Slot::anchor_plus_k, Slot::anchor_plus_k_plus_1}) {
    CHECK(anchor_positions(slot, {1, 0, 1, 4}) == 0);
  }
}

TEST_CASE("the smallest keys win, of equal ones the first, and come out ascending") {
  const Mask valid{1, 1, 0, 1, 1, 1};
  const std::vector<double> keys{0.5, 0.2, 0.0, 0.2, 0.9, 0.2};
  CHECK(sample(valid, keys, 1, 2).anchors == Ids{1, 3});
  CHECK(sample(valid, keys, 1, 4).anchors == Ids{0, 1, 3, 5});
  const Drawn all = sample(valid, keys, 1, 7);
  CHECK(all.anchors == Ids{0, 1, 3, 4, 5, 0, 0});
  CHECK(all.keep == Mask{1, 1, 1, 1, 1, 0, 0});
  CHECK(sample({0, 0}, {0.1, 0.2}, 1, 2).chosen == 0);
  CHECK(sample({0, 0, 0, 1}, {0, 0, 0, 1}, 2, 1).keep == Mask{0, 1});
}

TEST_CASE("a sampler draws by seed, step and position, whatever the rank; nothing valid is an error of its own") {
  const BlockSpan span{3, 40, 5, 4}, one{1, 40, 5, 4};
  const Mask mask(120, 1);
  AnchorSampler all(Slot::anchor_plus_k, span), again(Slot::anchor_plus_k, span), last(Slot::anchor_plus_k, one);
  const auto drawn = [](const AnchorSampler& s) {
    return Ids(s.anchors().data(), s.anchors().data() + s.anchors().extent(0));
  };
  // The least of Philox's uniform numbers with seed 3, stream "anch" + 7 and counters 0 to 19.
  AnchorSampler pinned(Slot::anchor_plus_k, {1, 24, 5, 5});
  pinned.sample(Vector<const std::uint8_t>(mask.data(), 24), {}, 3, 7);
  CHECK(drawn(pinned) == Ids{4, 5, 8, 12, 17});
  all.sample(vector(mask), {}, 5, 0);
  CHECK(all.chosen() == 15);
  const Ids first = drawn(all);
  again.sample(vector(mask), {}, 5, 1);
  CHECK(drawn(again) != first);
  again.sample(vector(mask), {}, 6, 0);
  CHECK(drawn(again) != first);
  again.sample(vector(mask), {}, 5, 0);
  CHECK(drawn(again) == first);
  last.sample(Vector<const std::uint8_t>(mask.data(), 40), {}, 5, 0, 2);
  CHECK(drawn(last) == Ids(first.begin() + 10, first.end()));
  const long before = allocations();
  all.sample(vector(mask), {}, 5, 2);
  CHECK(allocations() == before);
  const Mask none(120, 0);
  CHECK_THROWS_AS(all.sample(vector(none), {}, 5, 0), NoValidAnchors);
  CHECK_THROWS_AS(all.sample(vector(none), {}, 5, 0), Error);
  CHECK(all.chosen() == 0);
}

TEST_CASE("over many steps every valid position is drawn equally often") {
  const BlockSpan span{1, 24, 5, 5};
  const Mask mask(24, 1);
  AnchorSampler sampler(Slot::anchor_plus_k, span);
  std::vector<double> counts(20);
  constexpr int steps = 4000;
  for (int step = 0; step < steps; ++step) {
    sampler.sample(vector(mask), {}, 3, step);
    for (index_t i = 0; i < 5; ++i) counts[static_cast<std::size_t>(sampler.anchors()(i))] += 1;
  }
  double chi2 = 0;
  for (const double c : counts) chi2 += (c - steps / 4.0) * (c - steps / 4.0) / (steps / 4.0);
  CHECK(chi2 < 43.8);  // 19 degrees of freedom, p = 0.001
}

TEST_CASE("documents that do not fill their row are refused") {
  CHECK(PackedRows({2, 3, 0}, 1, 5).start == Ids{0, 0, 2, 2, 2});
  CHECK(PackedRows({2, 3, 0}, 1, 5).remaining == Ids{1, 0, 2, 1, 0});
  CHECK_THROWS_WITH_AS(PackedRows({5, 0, 2, 2}, 2, 5), "documents of row 1: found 4 tokens, wanted 5", Error);
  CHECK_THROWS_AS(PackedRows({2, 4}, 1, 5), Error);
  CHECK_THROWS_AS(PackedRows({6, -1}, 1, 5), Error);
}

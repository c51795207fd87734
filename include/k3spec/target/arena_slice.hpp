#pragma once
/// \file
/// Working memory of one thread, cut out of an Arena before threads run.
/// defines: BorrowedBytes, ArenaSlice

#include <cstddef>

#include <k3spec/core/arena.hpp>

namespace K3SPEC_NAMESPACE {

/// Memory that another arena owns.
struct BorrowedBytes {
  std::byte* memory = nullptr;
  index_t bytes = 0;

  std::byte* data() const { return memory; }
  index_t size() const { return bytes; }
};

/// A piece of an Arena's memory that one thread hands out by itself.
class ArenaSlice : public BasicArena<BorrowedBytes> {
 public:
  /// A slice of memory that has been planned.
  /// \param memory  `bytes` of it, aligned
  ArenaSlice(std::byte* memory, std::size_t bytes) : BasicArena(BorrowedBytes{memory, static_cast<index_t>(bytes)}) {}
};

}  // namespace K3SPEC_NAMESPACE

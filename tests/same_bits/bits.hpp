#pragma once
/// \file
/// What each unit, compiled for its own instruction set, makes of the same work: hashes by name, and whether this
/// processor can run the unit. Only the names of functions differ between the units.
/// defines: BitsByName, CompiledFor

#include <cstdint>
#include <map>
#include <string>

using BitsByName = std::map<std::string, std::uint64_t>;

struct CompiledFor {
  std::string name;  ///< the instruction set's, as k3spec calls it
  bool (*runs)();    ///< on this processor
  BitsByName (*work)();
};

CompiledFor oldest(), newer(), newest();

#pragma once
// What each unit, compiled for its own instruction set, sees of k3spec. Both define the same function with one source;
// had their symbols one name, the linker would keep one of them for both.

#include <string>
#include <vector>

struct SeenByUnit {
  std::string set;                    ///< its name
  std::vector<std::string> features;  ///< what an inline function says
  const void* function;               ///< its address
};

SeenByUnit seen_by_oldest();
SeenByUnit seen_by_newer();

#include <tests/instruction_sets/seen.hpp>

SeenByUnit seen_by_oldest() { return seen(); }

#include <tests/same_bits/work.hpp>

CompiledFor newer() { return compiled_for(); }

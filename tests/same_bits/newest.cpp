#include <tests/same_bits/work.hpp>

CompiledFor newest() { return compiled_for(); }

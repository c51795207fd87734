#include <tests/same_bits/work.hpp>

CompiledFor oldest() { return compiled_for(); }

// The counting operator new, in this program too.
#include <tests/backend/allocations.cpp>

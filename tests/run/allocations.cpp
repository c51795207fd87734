// Counts calls of operator new, as in the backend's tests.
#include "tests/backend/allocations.cpp"

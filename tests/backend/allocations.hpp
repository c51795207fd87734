#pragma once
/// \file
/// Counts what the program allocates through operator new.
/// defines: allocations

/// Calls so far, of all threads.
long allocations();

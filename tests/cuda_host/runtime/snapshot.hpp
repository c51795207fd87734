#pragma once
/// \file
/// The device's memory around the three runs of a launch.
///
/// The device process sees its memory through a private mapping of the file: what a run writes are copies of pages,
/// which the kernel's page table tells (/proc/self/pagemap). Dropping them is the state before the launch again;
/// writing those of the first run to the file is the launch's result. So a launch costs what it writes, not what is
/// allocated.
/// defines: map_allocations, keep_first_run, compare_run, commit_first_run

#include <cstdint>

namespace cuda_host {

void prepare_snapshots();  ///< once in a device process
void map_allocations();    ///< follows the host's list of live allocations
void keep_first_run();     ///< remembers what was written, checks canaries, goes back
void compare_run();        ///< a difference is a fault; goes back
void commit_first_run();

}  // namespace cuda_host

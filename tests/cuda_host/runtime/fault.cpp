#include <cstdio>
#include <sstream>

#include "cuda_host.h"
#include "elf_symbols.hpp"
#include "host_state.hpp"
#include "memory.hpp"
#include "process.hpp"

namespace cuda_host {
namespace {

std::string& last = *new std::string;  // never destroyed
bool quiet = false;

std::string hex(std::uint64_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << value;
  return text.str();
}

std::string place(const char* file, unsigned line) { return std::string(file) + ":" + std::to_string(line); }

std::string index(const uint3& i) {
  return "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")";
}

std::string access_words(Access access) {
  if (access == Access::read) return " (a read)";
  return access == Access::write ? " (a write)" : "";
}

std::string sentence_of(const Fault& fault) {
  static constexpr const char* orders[] = {"ascending", "descending", "random"};
  std::string text = fault.what;
  if (fault.has_address)
    text += access_words(fault.access) + " at " + hex(fault.address) + ", " + describe(fault.address);
  if (fault.file != nullptr) text += ", " + place(fault.file, fault.line);
  if (fault.other_file != nullptr) text += " and " + place(fault.other_file, fault.other_line);
  text += "; kernel " + function_name(reinterpret_cast<std::uint64_t>(control->launch.kernel));
  if (fault.in_kernel) {
    text += ", block " + index(fault.block) + ", thread " + index(fault.thread);
    const std::string function = fault.instruction == 0 ? "" : function_name(fault.instruction);
    if (!function.empty()) text += ", in " + function;
  }
  return text + ", " + orders[fault.run] + " order";
}

}  // namespace

cudaError_t report(cudaError_t error, const std::string& sentence) {
  last = std::string(cudaGetErrorName(error)) + ": " + sentence;
  if (!quiet) std::fprintf(stderr, "cuda_host: %s\n", last.c_str());
  return error;
}

cudaError_t report(const Fault& fault) { return report(fault.error, sentence_of(fault)); }

std::string last_fault() { return last; }
void clear_last_fault() { last.clear(); }
void set_quiet(bool on) { quiet = on; }

}  // namespace cuda_host

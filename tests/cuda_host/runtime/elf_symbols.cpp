#include "elf_symbols.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace cuda_host {
namespace {

/// The executable's file, mapped while its symbols are read.
class Executable {
 public:
  Executable() {
    const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file >= 0 && ::fstat(file, &status) == 0) {
      size_ = static_cast<std::size_t>(status.st_size);
      void* p = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
      if (p != MAP_FAILED) data_ = static_cast<const unsigned char*>(p);
    }
    if (file >= 0) ::close(file);
  }
  ~Executable() {
    if (data_ != nullptr) ::munmap(const_cast<unsigned char*>(data_), size_);
  }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  template <class F>  // f(symbol, name)
  void for_each_symbol(F f) const {
    if (data_ == nullptr) return;
    const auto& header = at<ElfW(Ehdr)>(0);
    const auto* sections = &at<ElfW(Shdr)>(header.e_shoff);
    for (std::size_t i = 0; i < header.e_shnum; ++i) {
      if (sections[i].sh_type != SHT_SYMTAB) continue;
      const auto* symbols = &at<ElfW(Sym)>(sections[i].sh_offset);
      const auto* names = reinterpret_cast<const char*>(data_ + sections[sections[i].sh_link].sh_offset);
      for (std::size_t s = 0; s < sections[i].sh_size / sizeof(ElfW(Sym)); ++s)
        f(symbols[s], names + symbols[s].st_name);
    }
  }

 private:
  template <class T>
  const T& at(std::uint64_t offset) const {
    return *reinterpret_cast<const T*>(data_ + offset);
  }

  const unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

bool is_thread_local(const ElfW(Sym) & symbol) {
  return ELF64_ST_TYPE(symbol.st_info) == STT_TLS && symbol.st_shndx != SHN_UNDEF && symbol.st_size > 0;
}

/// A function's, and not one of a sanitizer that is linked in.
bool is_shared_name(std::string_view name) {
  return name.starts_with("_ZZ") && name.find("__asan") == name.npos && name.find("__sanitizer") == name.npos &&
         name.find("__ubsan") == name.npos && name.find("__lsan") == name.npos;
}

struct ThreadLocal {
  std::uint64_t offset, size;
  bool is_shared;
};

std::vector<ThreadLocal> thread_locals() {
  std::vector<ThreadLocal> found;
  Executable().for_each_symbol([&](const ElfW(Sym) & symbol, const char* name) {
    if (is_thread_local(symbol)) found.push_back({symbol.st_value, symbol.st_size, is_shared_name(name)});
  });
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  return found;
}

std::uint64_t load_address() {
  std::uint64_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        *static_cast<std::uint64_t*>(out) = info->dlpi_addr;
        return 1;
      },
      &address);
  return address;
}

}  // namespace

std::vector<SharedSpan> shared_spans() {
  std::vector<SharedSpan> spans;
  bool goes_on = false;  // nothing else lies between
  for (const ThreadLocal& variable : thread_locals()) {
    if (variable.is_shared && goes_on) {
      spans.back().size = std::max(spans.back().size, variable.offset + variable.size - spans.back().offset);
    } else if (variable.is_shared) {
      spans.push_back({variable.offset, variable.size});
    }
    goes_on = variable.is_shared;
  }
  return spans;
}

std::string function_name(std::uint64_t address) {
  std::string found;
  const std::uint64_t wanted = address - load_address();
  Executable().for_each_symbol([&](const ElfW(Sym) & symbol, const char* name) {
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_shndx == SHN_UNDEF) return;
    if (wanted >= symbol.st_value && wanted - symbol.st_value < symbol.st_size) found = name;
  });
  char* plain = abi::__cxa_demangle(found.c_str(), nullptr, nullptr, nullptr);
  if (plain != nullptr) found = plain;
  std::free(plain);
  return found;
}

}  // namespace cuda_host

// golden_bits NAME FILE...: the golden bits (tests/support/golden_bits.hpp) of what a program wrote, for the tests that
// are scripts. Of a safetensors file the data counts, not its header. Exit status 1, with a sentence, when they are
// others.
#include <cstdio>
#include <fstream>
#include <iterator>

#include <tests/support/golden_bits.hpp>

int main(int argc, char** argv) {
  using namespace k3spec::test;
  if (argc < 3) return std::fputs("wanted a name and files\n", stderr), 2;
  BitHash bits;
  for (int i = 2; i < argc; ++i) {
    const std::string path = argv[i];
    std::ifstream in(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (!in || text.empty()) return std::fprintf(stderr, "%s: cannot be read, or is empty\n", argv[i]), 2;
    path.ends_with(".safetensors") ? bits.tensors(text) : bits.bytes(text);
  }
  const std::string said = golden_table().check(argv[1], bits.value());
  if (!said.empty()) std::fprintf(stderr, "%s\n", said.c_str());
  return said.empty() ? 0 : 1;
}

/// \file
/// The target on k3-tiny's weights, once for each line of input (worker.hpp): a forward of whole sequences with logits
/// of every position, or 64 tokens decoded behind a prompt of 96. Run in the project's root.
/// ```text
/// bench_target_step prefill|decode THREADS [SEQUENCES LENGTH]
/// ```

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <k3spec/decode/plain.hpp>
#include <k3spec/ops/argmax.hpp>
#include <k3spec/target/load.hpp>

#include "worker.hpp"

namespace {

using namespace k3spec;
using bench::Json;
using Config = configs::KimiK3Tiny;
using Tiny = FrozenTarget<Config, float>;
constexpr index_t prompt_tokens = 96, new_tokens = 64;

const std::filesystem::path& data() {
  static const std::filesystem::path path = "examples/data/k3-tiny";
  return path;
}

std::vector<index_t> text(index_t count) {
  std::ifstream file(data() / "heldout.txt", std::ios::binary);
  std::vector<index_t> ids;
  for (std::istreambuf_iterator<char> c(file), end; c != end && std::ssize(ids) < count; ++c) {
    ids.push_back(static_cast<unsigned char>(*c));
  }
  return ids;
}

/// Every step gives the same: what it gives is said once.
void prefill(const Cpu& cpu, const Tiny& target, Json about, index_t sequences, index_t length) {
  const index_t rows = sequences * length;
  const auto ids = text(rows);
  Tiny::State memory({sequences, length});
  Arena arena(Tiny::scratch_bytes(sequences, length));
  Buffer<float> last(rows * Config::hidden_size), logits(rows * Config::vocab_size);
  const Matrix<float> last_rows(last.data(), rows, Config::hidden_size);
  const Matrix<float> logit_rows(logits.data(), rows, Config::vocab_size);
  Buffer<index_t> chosen(rows);
  bool said = false;
  bench::serve(about.add("sequences", sequences).add("length", length), [&](Json& answer) {
    for (index_t b = 0; b < sequences; ++b) memory.reset(b);
    target.forward(cpu, memory, Matrix<const index_t>(ids.data(), sequences, length), {last_rows}, arena);
    target.compute_logits(cpu, last_rows, logit_rows);
    argmax(cpu, logit_rows, Vector<index_t>(chosen.data(), rows));
    if (std::exchange(said, true)) return;
    double squares = 0;
    for (const float x : logits) squares += double{x} * double{x};
    answer.add("logits_norm", std::sqrt(squares));
    answer.add("tokens", std::vector<index_t>(chosen.begin(), chosen.end()));
  });
}

void decode(const Cpu& cpu, const Tiny& target, Json about) {
  PlainDecoder<Config, float> decoder(target, prompt_tokens + new_tokens, {.max_new_tokens = new_tokens});
  const auto prompt = text(prompt_tokens);
  about.add("prompt", prompt_tokens).add("new_tokens", new_tokens);
  bench::serve(about, [&](Json& answer) { answer.add("tokens", decoder.generate(cpu, prompt).tokens); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (argc < 3 || (name != "prefill" && name != "decode")) {
    std::fprintf(stderr, "usage: bench_target_step prefill|decode THREADS [SEQUENCES LENGTH]\n");
    return 2;
  }
  const Cpu cpu{std::atoi(argv[2])};
  Parameters<K3Target<Config>, float> parameters;
  load_target<Config>(data(), parameters);
  const Tiny target(parameters.weights());
  Json about;
  about.add("case", name).add("kind", name).add("threads", cpu.threads);
  if (name == "decode") {
    decode(cpu, target, about);
  } else {
    prefill(cpu, target, about, argc > 4 ? std::atoi(argv[3]) : 8, argc > 4 ? std::atoi(argv[4]) : 192);
  }
}

/// \file
/// Loads a synthetic checkpoint, MXFP4 experts and the rest bfloat16, and says how its time compares to one pass over
/// the files' bytes, and what it takes of memory at most. `bench_load_checkpoint FOLDER [LAYERS [RUNS]]` writes the
/// checkpoint into FOLDER where it is not there, which nothing deletes, and takes turns; LAYERS is 1 (with the way by
/// parameters beside it) or 12.

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <k3spec/core/format.hpp>
#include <k3spec/io/input_file.hpp>
#include <k3spec/target/load.hpp>

namespace {

using namespace k3spec;

/// Kimi K3's shape, smaller: nearly all of it are experts.
template <index_t Layers>
struct Large : configs::KimiK3Small {
  static constexpr index_t vocab_size = 32768, hidden_size = 2048, intermediate_size = 4096;
  static constexpr index_t num_hidden_layers = Layers, first_k_dense_replace = 0;
  static constexpr auto full_attn_layers = configs::detail::every_fourth_and_last<Layers>();
  static constexpr index_t num_attention_heads = 16, num_key_value_heads = 16, kda_num_heads = 16;
  static constexpr std::optional<index_t> q_lora_rank = 512;
  static constexpr index_t kv_lora_rank = 256, kda_head_dim = 128;
  static constexpr index_t num_experts = 256, num_experts_per_token = 8;
  static constexpr index_t moe_intermediate_size = 1024, routed_expert_hidden_size = 1024;
  static constexpr std::optional<index_t> bos_token_id = 0, eos_token_id = 1, pad_token_id = 2;
  static constexpr std::optional<index_t> media_token_id = 3;
  static constexpr std::array<index_t, 0> other_stop_token_ids{};
};

/// Seconds: by the clock, and of all threads' processors, which other programs change less, in the program and in the
/// system for it.
struct Seconds {
  double wall, user, system;

  static Seconds now() {
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const ::timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return {std::chrono::duration<double>(since).count(), seconds(usage.ru_utime), seconds(usage.ru_stime)};
  }
  double processors() const { return user + system; }
  friend Seconds operator-(const Seconds& a, const Seconds& b) {
    return {a.wall - b.wall, a.user - b.user, a.system - b.system};
  }
};

/// The most that this process had in memory, GB.
double peak() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e9;
}

/// Random numbers that all tensors begin with.
struct Pool {
  std::vector<bfloat16> halves;
  std::vector<float> full;
  std::vector<std::uint8_t> nibbles, scales;

  explicit Pool(index_t most) : full(1 << 20) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 0.02F);
    halves.resize(static_cast<std::size_t>(most)), nibbles.resize(1 << 20), scales.resize(1 << 16);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = i < 4096 ? bfloat16(normal(random)) : halves[i - 4095];
    for (float& x : full) x = normal(random);
    for (auto& x : nibbles) x = static_cast<std::uint8_t>(random());
    for (auto& x : scales) x = static_cast<std::uint8_t>(115 + random() % 8);
  }
};

template <class Config>
void write(const std::filesystem::path& file) {
  using Target = K3Target<Config>;
  const Pool pool(Config::vocab_size * Config::hidden_size);
  auto weights = std::make_unique<typename Target::template Weights<Unread<bfloat16>>>();
  std::vector<io::TensorSource> sources;
  for (const io::TensorSlot& slot : io::slots<Target>(*weights)) {
    if (slot.name.find(".experts.") != std::string::npos) {
      const index_t out = slot.shape[0], in = slot.shape[1];
      sources.push_back({slot.name + "_packed", DType::U8, {out, in / 2}, pool.nibbles.data()});
      sources.push_back({slot.name + "_scale", DType::U8, {out, in / mxfp4_block}, pool.scales.data()});
    } else if (slot.dtype == DType::F32) {
      sources.push_back({slot.name, slot.dtype, slot.shape, pool.full.data()});
    } else {
      sources.push_back({slot.name, slot.dtype, slot.shape, pool.halves.data()});
    }
  }
  io::write_safetensors(file, sources);
}

/// Reads a file once, a piece at a time.
void read_through(const std::filesystem::path& path) {
  const io::InputFile file(path);
  std::vector<char> piece(1 << 20);
  for (std::uint64_t at = 0; at < file.size(); at += piece.size()) file.read_some(at, piece.data(), piece.size());
}

template <index_t Layers>
void measure(const std::filesystem::path& folder, int runs) {
  using Config = Large<Layers>;
  std::filesystem::create_directories(folder);
  const auto file = folder / fmt::format("synthetic-{}.safetensors", Layers);
  if (!std::filesystem::exists(file)) write<Config>(file);
  fmt::print("{} parameters, a file of {:.2f} GB\n", parameter_count<K3Target<Config>>,
             static_cast<double>(std::filesystem::file_size(file)) / 1e9);
  std::map<std::string, Seconds> least;
  const auto print = [](const std::string& what, const Seconds& s) {
    fmt::print("{:<24} {:8.3f} s, of processors {:8.3f} s: {:8.3f} user, {:8.3f} system", what, s.wall, s.processors(),
               s.user, s.system);
  };
  const auto time = [&](const std::string& what, auto&& f) {
    const Seconds begun = Seconds::now();
    f();
    const Seconds s = Seconds::now() - begun;
    const auto [at, is_new] = least.try_emplace(what, s);
    if (s.processors() < at->second.processors()) at->second = s;
    print(what, s);
    fmt::print(", peak {:.2f} GB\n", peak());
    std::fflush(stdout);
  };
  for (int r = 0; r < runs; ++r) {
    time("reading the file", [&] { read_through(file); });
    time("opening it", [&] { io::ModelTensors::open(file); });
    for (const int threads : {1, 2}) {
      std::size_t bytes = 0;
      time(fmt::format("loading, {} threads", threads),
           [&] { bytes = load_frozen_target<Config, float>(Cpu{threads}, io::ModelTensors::open(file)).bytes().all; });
      if (r == 0) fmt::print("weights in memory: {:.2f} GB\n", static_cast<double>(bytes) / 1e9);
    }
  }
  if constexpr (Layers == 1) {
    time("by way of parameters", [&] {
      const auto parameters = std::make_unique<Parameters<K3Target<Config>, float>>();
      load_target(io::ModelTensors::open(file), *parameters);
      const FrozenTarget<Config, float> target(Cpu{1}, parameters->weights());
    });
  }
  fmt::print("the run of each that took processors least:\n");
  for (const auto& [what, s] : least) {
    print(what, s);
    fmt::print("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "bench_load_checkpoint FOLDER [LAYERS [RUNS]]\n");
    return 2;
  }
  const int runs = argc > 3 ? std::atoi(argv[3]) : 3;
  if (argc > 2 && std::string_view(argv[2]) == "1") {
    measure<1>(argv[1], runs);
  } else {
    measure<12>(argv[1], runs);
  }
}

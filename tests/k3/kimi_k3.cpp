// The draft of Kimi K3 at its published size: parameter counts, and one forward and backward within 16 GiB.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <k3spec/objectives/ttt_objective.hpp>

using namespace k3spec;

namespace {

using Draft = Eagle3Draft<configs::KimiK3>;
using S = accumulate_t<bfloat16>;
constexpr index_t rows = 32, steps = 2, stride = Draft::vocabulary / Draft::draft_vocabulary;

// The count from the published sizes, not from the config: width 7168, 96 heads of 128 + 64 and 128, latents 1536 and
// 512, MLP 33792, head 32000, embedding 163840.
constexpr index_t width = 7168, heads = 96;
constexpr index_t queries = 2 * width * 1536 + 1536 + 1536 * heads * (128 + 64);
constexpr index_t keys_and_values = 2 * width * (512 + 64) + 512 + 512 * heads * (128 + 128);
constexpr index_t gate_and_output = 2 * width * heads * 128 + heads * 128 * width;
constexpr index_t norms = 4 * width;  // embedding, hidden state, before the MLP, before the head
constexpr index_t mlp = 3 * width * 33792;
constexpr index_t trained =
    3 * width * width + queries + keys_and_values + gate_and_output + norms + mlp + 32000 * width;
static_assert(trainable_count<Draft> == trained && trained == 1'445'623'808);
static_assert(parameter_count<Draft> == trained + 163840 * width && parameter_count<Draft> == 2'620'028'928);

double peak_gib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024 / 1024;
}

/// What the system can still give, in GiB, as /proc/meminfo has it; plenty where there is none.
double available_gib() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) return std::stod(line.substr(13)) / 1024 / 1024;
  }
  return 1e9;
}

/// Says so where it holds: a process that takes more memory than there is would be killed, and perhaps others with it.
bool too_little_memory() {
  constexpr double wanted = 14;
  const double found = available_gib();
  if (found >= wanted) return false;
  std::fprintf(stderr, "k3: skipped: %.1f GiB of memory available, %.0f wanted\n", found, wanted);
  return true;
}

/// Seconds since the last call.
double lap() {
  static auto last = std::chrono::steady_clock::now();
  const auto now = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(now - std::exchange(last, now)).count();
}

/// Uniform weights of deviation 0.02, eight from each block of random bits: normal ones of this many take minutes.
void initialize(Parameters<Draft, bfloat16>& parameters) {
  auto w = parameters.mutable_weights();
  std::uint64_t stream = 0;
  Draft::visit(w, Path{}, [&](const Path&, auto& view, auto) {
    const Philox random(1, stream++);
    const bool matrix = std::remove_cvref_t<decltype(view)>::rank > 1;
    const index_t n = view.size();
    parallel_for(Cpu{2}, (n + 8191) / 8192, [&](index_t part) {
      for (index_t i = part * 8192; i < std::min(n, (part + 1) * 8192); i += 8) {
        const auto words = random.block(static_cast<std::uint64_t>(i));
        for (index_t j = 0; j < std::min<index_t>(8, n - i); ++j) {
          const std::uint32_t bits = words[static_cast<std::size_t>(j / 2)] >> (j % 2 * 16) & 0xffffU;
          const float uniform = (static_cast<float>(bits) + 0.5f) * 0x1p-16f - 0.5f;
          view.data()[i + j] = bfloat16(matrix ? uniform * 0.0692820323f : 1.0f);  // 0.02 √12
        }
      }
    });
  });
}

/// One sequence with a teacher that is all but flat; its choice is a token the draft can say in three rows of four.
struct Data {
  std::vector<index_t> ids, selected, top;
  std::vector<std::uint8_t> mask, loss_mask, t2d;
  std::vector<bfloat16> aux, logits;

  Data()
      : mask(rows, 1),
        loss_mask(rows, 1),
        t2d(Draft::vocabulary),
        aux(rows * Draft::aux_width),
        logits(rows * Draft::vocabulary) {
    const Philox random(17);
    for (index_t i = 0; i < Draft::draft_vocabulary; ++i) selected.push_back(i * stride);
    for (const index_t id : selected) t2d[static_cast<std::size_t>(id)] = 1;
    for (std::size_t i = 0; i < aux.size(); ++i) aux[i] = bfloat16(static_cast<float>(random.normal(i)));
    const Philox others(17, 1);
    for (std::size_t i = 0; i < logits.size(); ++i) logits[i] = bfloat16(static_cast<float>(others.normal(i)));
    loss_mask.back() = 0;
    for (index_t r = 0; r < rows; ++r) {
      const auto n = static_cast<std::uint64_t>(r);
      ids.push_back(static_cast<index_t>(Philox(17, 2).below(n, Draft::vocabulary)));
      const auto token = static_cast<index_t>(Philox(17, 3).below(n, Draft::draft_vocabulary)) * stride;
      top.push_back(r % 4 == 3 ? token + 1 : token);
      logits[static_cast<std::size_t>(r * Draft::vocabulary + top.back())] = bfloat16(6.5f);
    }
  }
  TttBatch<bfloat16, Draft::aux_width> batch() const {
    return {rows,
            Vector<const index_t>(ids.data(), rows),
            Vector<const std::uint8_t>(mask.data(), rows),
            Vector<const std::uint8_t>(loss_mask.data(), rows),
            Rows<const bfloat16, Draft::aux_width>(aux.data(), rows),
            Vector<const index_t>(top.data(), rows),
            Vector<const std::uint8_t>(t2d.data(), Draft::vocabulary)};
  }
  LogitsTeacher<bfloat16> teacher() const {
    return {Matrix<const bfloat16>(logits.data(), rows, Draft::vocabulary),
            Vector<const index_t>(selected.data(), Draft::draft_vocabulary)};
  }
};

}  // namespace

TEST_CASE("Kimi K3's draft: one forward and backward in bfloat16 within 16 GiB" * doctest::skip(too_little_memory())) {
  lap();
  const Data data;
  Parameters<Draft, bfloat16> parameters;
  initialize(parameters);
  const double initialized = lap();
  Gradients<Draft, bfloat16> gradients;
  TttObjective<Draft, bfloat16> objective(rows, steps);
  auto d_w = gradients.weights();
  const double planned = lap();
  const TttMetrics r = objective.forward_backward(Cpu{2}, parameters.weights(), d_w, data.batch(), data.teacher());
  const double ran = lap();
  MESSAGE("initialisation ", initialized, " s, gradients and activations ", planned, " s, forward and backward ", ran,
          " s, peak ", peak_gib(), " GiB, loss ", r.loss());

  // A fresh head's logits are N(0, 7168 · 0.02²) and nearly independent of the teacher: the loss is about
  // log(32000) + 7168 · 0.02² / 2 = 11.81. The teacher's choice, at weight e^6.5 / (32000 e^0.5), shifts it by < 0.1.
  CHECK(r.loss() == doctest::Approx(11.81).epsilon(0.01));
  // Rows 0 to 30 but 3, 7, … 27 (31 has no loss mask); step 1 has no row that row 0 could supervise.
  CHECK(r.supervised() == 24 + 23);
  Draft::visit(d_w, Path{}, [&](const Path& path, auto& view, auto) {
    if (view.data() == nullptr) return;
    CAPTURE(path.str());
    double sum = 0;
    for (index_t i = 0; i < view.size(); ++i) sum += std::abs(static_cast<double>(view.data()[i]));
    CHECK(std::isfinite(sum));
    CHECK(sum > 0);
  });
  CHECK(peak_gib() < 16);
}

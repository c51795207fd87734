#include "grid.hpp"

#include <numeric>

#include "block.hpp"
#include "device_process.hpp"
#include "shared_memory.hpp"

namespace cuda_host {
namespace {

/// A permutation of 0 ... n-1 that needs no memory: steps of a length that has no divisor in common with n.
class Permutation {
 public:
  Permutation(std::uint64_t n, Order order, Random& random) : n_(n) {
    if (order == Order::descending) {
      start_ = n - 1;
      step_ = n - 1;
    }
    if (order != Order::random) return;
    start_ = random.below(n);
    do {
      step_ = 1 + random.below(n);
    } while (std::gcd(step_, n) != 1);
  }
  std::uint64_t operator()(std::uint64_t i) const {
    return static_cast<std::uint64_t>((static_cast<Wide>(i) * step_ + start_) % n_);
  }

 private:
  __extension__ using Wide = unsigned __int128;
  std::uint64_t n_, start_ = 0, step_ = 1;
};

}  // namespace

bool counts = false;

void count_tile() {
  require_device("count_tile");
  if (counts) ++control->tiles;
}

void run_grid(const Request& launch, int run) {
  constexpr Order orders[] = {Order::ascending, Order::descending, Order::random};
  constexpr unsigned char poisons[] = {0xff, 0x7f, 0xfe};  // as float NaN, 3.4e38, -1.7e38
  Random random{launch.seed};
  const Order order = orders[run];
  shared_poison = poisons[run];
  counts = run == 0;
  const dim3& grid = launch.grid;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  const Permutation permuted(blocks, order, random);
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t b = permuted(i);
    position.block = {static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                      static_cast<unsigned>(b / grid.x / grid.y)};
    poison_shared();
    run_block(launch, order, random);
    check_shared();
  }
}

}  // namespace cuda_host

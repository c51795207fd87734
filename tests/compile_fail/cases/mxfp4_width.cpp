// expect: an MXFP4 row is made of blocks of 32
#include <k3spec/io/mxfp4.hpp>

#ifdef K3SPEC_EXPECT_FAIL
constexpr k3spec::index_t width = 48;
#else
constexpr k3spec::index_t width = 64;
#endif

void dequantize(const std::uint8_t* packed, const std::uint8_t* scale, float* weight) {
  using k3spec::View;
  k3spec::io::dequantize_mxfp4(View<const std::uint8_t, 2, width / 2>(packed),
                               View<const std::uint8_t, 2, width / 32>(scale), View<float, 2, width>(weight));
}

// Files' tensors with a wrong extent. What a file itself has wrong is tested where it is read (tests/io).
#include <k3spec/io/convert.hpp>
#include <k3spec/io/mxfp4.hpp>

#include "tests/refusals/table.hpp"

using namespace k3spec;
using refusals::Arguments;
using refusals::refuses;

TEST_CASE("MXFP4") {
  refuses({"io/mxfp4.hpp dequantize_mxfp4"}, [](Arguments& a) {
    io::dequantize_mxfp4(a.matrix<const std::uint8_t>("packed", 2, 32), a.matrix<const std::uint8_t>("scale", 2, 2),
                         a.of<float>(2, 64));
  });
  refuses({"io/mxfp4.hpp dequantize_mxfp4"}, [](Arguments& a) {
    const index_t width = a.extent("MXFP4", 64);
    io::dequantize_mxfp4(a.of<const std::uint8_t>(2, 32), a.of<const std::uint8_t>(2, 2), a.of<float>(2, width));
  });
}

TEST_CASE("conversion") {
  refuses({"io/convert.hpp convert"}, [](Arguments& a) {
    // Whole elements of any number are right.
    const index_t bytes = 8 + a.index("bytes", 0, 2);
    io::convert(DType::F32, {a.memory<std::byte>(bytes), static_cast<std::size_t>(bytes)}, DType::F64,
                a.memory<double>(3));
  });
  float to = 0;
  CHECK_THROWS_WITH_AS(io::convert(DType::I64, {}, DType::F32, &to), "convert: found I64, wanted what F32 can hold",
                       Error);
}

#pragma once
/// \file
/// Weights of fewer bits than a float, several in each 32-bit word, as packets of floats: every value is exact.
/// defines: detail::Words, detail::low_half, detail::high_half, detail::low_nibble, detail::drop_nibble,
///          detail::powers_of_two

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <k3spec/backend/cpu/packet.hpp>
#include <k3spec/core/mxfp4.hpp>

namespace K3SPEC_NAMESPACE::detail {

#if defined(__CUDACC__)

/// As many 32-bit words as a packet has floats.
struct Words {
  static constexpr std::size_t width = static_cast<std::size_t>(Packet<float>::width);
  std::array<std::uint32_t, width> word;

  static Words load(const void* p) {
    Words w;
    std::memcpy(w.word.data(), p, sizeof w.word);
    return w;
  }
  template <class F>
  Packet<float> floats(F&& f) const {
    typename Packet<float>::Lanes lanes;
    for (std::size_t i = 0; i < width; ++i) lanes[i] = f(word[i]);
    return Packet<float>(lanes);
  }
};

/// The bfloat16 in the lower half of each word.
inline Packet<float> low_half(const Words& w) {
  return w.floats([](std::uint32_t x) { return std::bit_cast<float>(x << 16U); });
}
/// The bfloat16 in the upper half.
inline Packet<float> high_half(const Words& w) {
  return w.floats([](std::uint32_t x) { return std::bit_cast<float>(x & 0xffff0000U); });
}
/// The E2M1 value of the lowest four bits.
inline Packet<float> low_nibble(const Words& w) {
  return w.floats([](std::uint32_t x) { return mxfp4_value(x & 15U); });
}
/// Each word without its lowest four bits, the next ones in their place.
inline Words drop_nibble(Words w) {
  for (std::uint32_t& x : w.word) x >>= 4U;
  return w;
}
/// 2^(p[i] - 127) in lane i, for 0 < p[i] < 255.
inline Packet<float> powers_of_two(const std::uint8_t* p) {
  typename Packet<float>::Lanes lanes;
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = mxfp4_scale(p[i]);
  return Packet<float>(lanes);
}

#else

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
#endif

/// As many 32-bit words as a packet has floats.
struct Words {
  using Register = typename vec::unpacket_traits<Packet<float>::Register>::integer_packet;
  Register r;

  static Words load(const void* p) { return {vec::ploadu<Register>(static_cast<const std::int32_t*>(p))}; }
  static Words all(std::uint32_t value) { return {vec::pset1<Register>(static_cast<std::int32_t>(value))}; }
  Packet<float> floats() const { return Packet<float>::wrap(vec::preinterpret<Packet<float>::Register>(r)); }
};

/// The bfloat16 in the lower half of each word.
inline Packet<float> low_half(Words w) { return Words{vec::plogical_shift_left<16>(w.r)}.floats(); }
/// The bfloat16 in the upper half.
inline Packet<float> high_half(Words w) { return Words{vec::pand(w.r, Words::all(0xffff0000U).r)}.floats(); }
/// Each word without its lowest four bits, the next ones in their place.
inline Words drop_nibble(Words w) { return {vec::plogical_shift_right<4>(w.r)}; }

/// The E2M1 value of the lowest four bits.
inline Packet<float> low_nibble(Words w) {
#if defined(__AVX512F__)
  // A permutation of sixteen lanes looks at four bits of each index.
  alignas(64) static constexpr float table[16] = {0,     0.5F,  1,     1.5F,  2,     3,     4,     6,
                                                  -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
  return Packet<float>::wrap(_mm512_permutexvar_ps(w.r, _mm512_load_ps(table)));
#elif defined(__AVX2__)
  // One of eight lanes looks at three; the fourth is the sign.
  alignas(32) static constexpr float table[8] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  const __m256 magnitude = _mm256_permutevar8x32_ps(_mm256_load_ps(table), w.r);
  const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(w.r, 3), 31);
  return Packet<float>::wrap(_mm256_or_ps(magnitude, _mm256_castsi256_ps(sign)));
#else
  // Three bits above a float's 22: exponent and fraction of 1 to 6, but for the bias, and below that 0 and 0.5 with the
  // first bit of a fraction that begins with 1.
  const Words magnitude{vec::pand(w.r, Words::all(7).r)};
  const Words bits{vec::plogical_shift_left<22>(magnitude.r)};
  const Packet<float> normal = Words{vec::padd(bits.r, Words::all(126U << 23U).r)}.floats();
  const Packet<float> small = Words{vec::padd(bits.r, Words::all(127U << 23U).r)}.floats() - Packet<float>(1);
  const Packet<float> value = select(less(normal, Packet<float>(1)), small, normal);
  const Words sign{vec::plogical_shift_left<31>(vec::plogical_shift_right<3>(w.r))};
  return Packet<float>::wrap(vec::por(value.r, sign.floats().r));
#endif
}

/// 2^(p[i] - 127) in lane i, for 0 < p[i] < 255.
inline Packet<float> powers_of_two(const std::uint8_t* p) {
#if defined(__AVX512F__)
  const __m512i wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return Packet<float>::wrap(_mm512_castsi512_ps(_mm512_slli_epi32(wide, 23)));
#elif defined(__AVX2__)
  const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  return Packet<float>::wrap(_mm256_castsi256_ps(_mm256_slli_epi32(wide, 23)));
#else
  typename Packet<float>::Lanes lanes;
  for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = mxfp4_scale(p[i]);
  return Packet<float>(lanes);
#endif
}

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif

}  // namespace K3SPEC_NAMESPACE::detail

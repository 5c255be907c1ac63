#pragma once

#include "base/host_device.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace hp {

/// Counter-based random numbers, Philox 4x32 with 10 rounds: four words that are a function of (key, counter) alone, so
/// that any node computes any number without the ones before it.
/// Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
/// @param key which stream: StreamKey. @param counter_high, counter_low which four words of it, in any meaning that the
/// user gives them (dropout: sample and unit / 4).
/// @param words [4], overwritten; each uniform over all 32 bits.
HP_HOST_DEVICE inline void Philox4x32(uint64_t key, uint64_t counter_high, uint64_t counter_low, uint32_t* words) {
  uint32_t c0 = static_cast<uint32_t>(counter_low), c1 = static_cast<uint32_t>(counter_low >> 32);
  uint32_t c2 = static_cast<uint32_t>(counter_high), c3 = static_cast<uint32_t>(counter_high >> 32);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0, product1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ k0;
    const uint32_t n2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ k1;
    c1 = static_cast<uint32_t>(product1);
    c3 = static_cast<uint32_t>(product0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}

/// The same as a value, on the host only.
inline std::array<uint32_t, 4> Philox4x32(uint64_t key, uint64_t counter_high, uint64_t counter_low) {
  std::array<uint32_t, 4> words;
  Philox4x32(key, counter_high, counter_low, words.data());
  return words;
}

/// The upper 24 bits of a word as a float in (0, 1], uniform: never 0, so that log() is finite.
HP_HOST_DEVICE inline float UnitFloat(uint32_t word) { return ((word >> 8) + 1) * (1.0f / 16777216.0f); }

/// The Philox key of one stream of numbers, from the job's seed and what they are for, e.g.
/// StreamKey(seed, "fc6", "dropout"). Equal on all nodes. FNV-1a over both names with a zero byte between them, mixed
/// with the seed by the finalizer of splitmix64.
inline uint64_t StreamKey(uint64_t seed, std::string_view layer, std::string_view purpose) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (std::string_view part : {layer, std::string_view("\0", 1), purpose}) {
    for (char c : part) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  }
  uint64_t z = hash + seed * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace hp

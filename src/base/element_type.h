#pragma once

#include <cstddef>
#include <cstdint>

namespace hp {

/// How one element is stored. The 16-bit types occur between the ops of GPUs, and bfloat16 between those of CPUs, too,
/// by the table's precision, and in what crosses to other nodes by its wire_precision: files, parameters and their
/// gradients are float32.
enum class ElementType : uint8_t { kFloat32, kBFloat16, kFloat16 };

constexpr size_t BytesOf(ElementType element) { return element == ElementType::kFloat32 ? 4 : 2; }

}  // namespace hp

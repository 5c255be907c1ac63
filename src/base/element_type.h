#pragma once

#include <cstddef>
#include <cstdint>

namespace hp {

/// How one element is stored. The 16-bit types occur between the ops of GPUs, and bfloat16 in what crosses to other
/// nodes where the table's wire_precision says so: files, parameters and their gradients are float32.
enum class ElementType : uint8_t { kFloat32, kBFloat16, kFloat16 };

constexpr size_t BytesOf(ElementType element) { return element == ElementType::kFloat32 ? 4 : 2; }

}  // namespace hp

#include "base/hash.h"

#include <xxhash.h>

namespace hp {

uint64_t HashBytes(std::string_view bytes) { return XXH64(bytes.data(), bytes.size(), 0); }

}  // namespace hp

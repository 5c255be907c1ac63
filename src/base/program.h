#pragma once

#include <cstdint>

namespace hp {

/// Hash of this program's build id (the linker's GNU note): equal for copies of one binary, other for each build of
/// other code or options. 0: it has none. Any thread.
uint64_t ProgramId();

}  // namespace hp

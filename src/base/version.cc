#include "base/version.h"

namespace hp {

const char* Version() { return HP_VERSION; }

}  // namespace hp

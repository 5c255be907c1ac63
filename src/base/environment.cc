#include "base/environment.h"

#include <cstdlib>

namespace hp {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace hp

#pragma once

#include <string>

namespace hp {

/// The value of environment variable `name`; empty if it is not set (or set to nothing). The only place of the project
/// that reads the environment.
std::string Environment(const char* name);

}  // namespace hp

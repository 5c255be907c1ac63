#pragma once

#include <string>

namespace hp {

/// The environment variable `name`; empty: not set. The only place that reads the environment.
std::string Environment(const char* name);

}  // namespace hp

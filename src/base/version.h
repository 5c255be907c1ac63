#pragma once

namespace hp {

/// Of this project, as its build says: "0.1".
const char* Version();

}  // namespace hp

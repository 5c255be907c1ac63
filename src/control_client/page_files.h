#pragma once

namespace hp {

// The files of page/, which are part of the program. UTF-8.
extern const char kPageHtml[];
extern const char kPageCss[];
extern const char kPageJs[];

}  // namespace hp

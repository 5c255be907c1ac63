#include "transport/verbs/real_verbs.h"

namespace hp {

Verbs* RealVerbs() {
  static LibibVerbs verbs;  // has no state
  return &verbs;
}

}  // namespace hp

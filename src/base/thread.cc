#include "base/thread.h"

#include <pthread.h>

#include <utility>

namespace hp {

Thread::Thread(const std::string& name, std::function<void()> body)
    : thread_([name = name.substr(0, 15), body = std::move(body)] {
        pthread_setname_np(pthread_self(), name.c_str());
        body();
      }) {}

}  // namespace hp

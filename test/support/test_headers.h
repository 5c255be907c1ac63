// What most tests include and what takes longest to read; compiled once, in CMakeLists.txt of test/. Each test still
// includes what it uses.
#pragma once

#include "proto/caffe.pb.h"
#include "proto/routing.pb.h"
#include "proto/wire.pb.h"

#include "glog/logging.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

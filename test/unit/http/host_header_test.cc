#include "http/host_header.h"

#include <gtest/gtest.h>

#include <string>

namespace hp {
namespace {

TEST(HostHeaderTest, NamesOfThisHost) {
  for (const char* header : {"127.0.0.1", "127.0.0.1:8080", "127.1.2.3:1", "[::1]", "[::1]:8080", "localhost",
                             "localhost:9000", "LocalHost.", "page.localhost:80", "127.0.0.1:"}) {
    EXPECT_TRUE(IsOwnHostHeader(header, "127.0.0.1")) << header;
  }
  EXPECT_TRUE(IsOwnHostHeader("My-Host:8080", "my-host")) << "what it listens on";
}

TEST(HostHeaderTest, NamesOfStrangers) {
  for (const char* header : {"",
                             ":8080",
                             ".",
                             "evil.example",
                             "evil.example:8080",
                             "localhost.evil.example",
                             "127.0.0.1.evil.example",
                             "notlocalhost",
                             ".localhost.example",
                             "127.1",
                             "0.0.0.0:8080",
                             "10.0.0.1",
                             "[::]",
                             "[::ffff:127.0.0.1]",
                             "::1",
                             "::1:80",
                             "[::1",
                             "[127.0.0.1",
                             "127.0.0.1:80:80",
                             "127.0.0.1:x",
                             "127.0.0.1:123456",
                             "user@127.0.0.1",
                             "127.0.0.1/",
                             "127.0.0.1, evil.example",
                             "[::1]evil.example",
                             "my-host"}) {
    EXPECT_FALSE(IsOwnHostHeader(header, "127.0.0.1")) << header;
  }
  EXPECT_FALSE(IsOwnHostHeader(std::string("127.0.0.1\0.evil.example", 23), "127.0.0.1"));
}

}  // namespace
}  // namespace hp

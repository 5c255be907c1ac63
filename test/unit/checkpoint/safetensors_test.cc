#include "checkpoint/safetensors.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

namespace hp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A value's bytes, as they lie in memory.
template <typename T>
std::string BytesOf(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

class SafetensorsTest : public testing::Test {
 protected:
  SafetensorsTest() {
    char name[] = "/tmp/hp_safetensors_XXXXXX";
    folder_ = mkdtemp(name);
    path_ = folder_ + "/net.safetensors";
  }
  ~SafetensorsTest() override { std::filesystem::remove_all(folder_); }

  void WriteBytes(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string ReadBytes() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// A file as it should be, whatever stands in its header.
  void Write(const std::string& header, const std::string& values) const {
    WriteBytes(BytesOf<uint64_t>({header.size()}) + header + values);
  }
  std::string FaultOf(const std::string& header, const std::string& values) const {
    Write(header, values);
    return Fault();
  }
  std::string Fault() const {
    const auto file = SafetensorsFile::Open(path_);
    EXPECT_FALSE(file.ok()) << "was accepted";
    if (file.ok()) return "";
    EXPECT_EQ(file.status().code(), StatusCode::kDataLoss) << file.status();
    EXPECT_THAT(file.status().message(), testing::StartsWith(path_ + ": "));
    return file.status().message();
  }

  std::string folder_, path_;
};

constexpr char kTwo[] = R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},)"
                        R"("a":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}   )";

TEST_F(SafetensorsTest, ReadsWhatTheFormatSays) {
  Write(kTwo, BytesOf<int32_t>({7}) + BytesOf<float>({-0.0f, 1.5f}));
  const auto file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ((*file)->entries().size(), 2u);
  EXPECT_EQ((*file)->entries().at("a").dtype, "I32");
  EXPECT_EQ((*file)->entries().at("a").shape, Shape());
  const auto b = (*file)->Read("b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->shape, (Shape{2, 1}));
  EXPECT_THAT(b->data, ElementsAre(0, 1.5f));
  EXPECT_TRUE(std::signbit(b->data[0]));
  const Status status = (*file)->Read("a").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("tensor \"a\" is of I32; expected F32, F16 or BF16"));
}

TEST_F(SafetensorsTest, WidensSixteenBits) {
  // 1, -2, 65504 (largest), 2^-24 (smallest), 2^-14 (smallest normal), -0, 1/3 rounded; infinity, not a number.
  const std::string halves =
      BytesOf<uint16_t>({0x3C00, 0xC000, 0x7BFF, 0x0001, 0x0400, 0x8000, 0x3555, 0x7C00, 0x7E00});
  const std::string brains = BytesOf<uint16_t>({0x3F80, 0xC000, 0x7F7F, 0x0001, 0x3EAB});
  Write(R"({"h":{"dtype":"F16","shape":[9],"data_offsets":[0,18]},)"
        R"("b":{"dtype":"BF16","shape":[5],"data_offsets":[18,28]}})",
        halves + brains);
  const auto file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto h = (*file)->Read("h"), b = (*file)->Read("b");
  ASSERT_TRUE(h.ok() && b.ok());
  EXPECT_EQ(std::vector<float>(h->data.begin(), h->data.begin() + 7),
            (std::vector<float>{1, -2, 65504, std::ldexp(1.0f, -24), std::ldexp(1.0f, -14), 0, 1365.0f / 4096}));
  EXPECT_TRUE(std::signbit(h->data[5]));
  EXPECT_EQ(h->data[7], std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(h->data[8]));
  EXPECT_THAT(b->data, ElementsAre(1, -2, std::ldexp(255.0f, 120), std::ldexp(1.0f, -133), 171.0f / 512));
}

TEST_F(SafetensorsTest, WritesTheBytesOfTheFormat) {
  const std::map<std::string, Blob> tensors = {{"fc.weight", {{1, 2}, false, {1, -2}}},
                                               {"a\"\\/\u00fc", {{}, false, {3}}}};
  ASSERT_TRUE(WriteSafetensors(path_, tensors).ok());
  std::string header = R"({"__metadata__":{"format":"pt"},"a\"\\/)"
                       "\u00fc"
                       R"(":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
                       R"("fc.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]}})";
  while (header.size() % 8 != 0) header += ' ';
  EXPECT_EQ(ReadBytes(), BytesOf<uint64_t>({header.size()}) + header + BytesOf<float>({3, 1, -2}));
  const auto file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT((*file)->Read("a\"\\/\u00fc")->data, ElementsAre(3));
  EXPECT_EQ(WriteSafetensors(path_, {{"a\nb", {{}, false, {3}}}}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteSafetensors(folder_ + "/none/x", tensors).code(), StatusCode::kInvalidArgument);
}

TEST_F(SafetensorsTest, CutAtEveryByte) {
  Write(kTwo, BytesOf<int32_t>({7}) + BytesOf<float>({1, 2}));
  const std::string whole = ReadBytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteBytes(whole.substr(0, size));
    EXPECT_THAT(Fault(), HasSubstr(size < whole.size() - 12 ? "truncated, or not a safetensors file: it " : "tensor"))
        << size;
  }
  WriteBytes(whole + "x");
  EXPECT_THAT(Fault(), HasSubstr("its tensors end at byte"));
}

TEST_F(SafetensorsTest, LengthsThatLie) {
  for (const uint64_t length : {uint64_t{9}, uint64_t{17} << 20, uint64_t{1} << 40, ~uint64_t{0}}) {
    WriteBytes(BytesOf<uint64_t>({length}) + "{}      ");
    EXPECT_THAT(Fault(),
                HasSubstr("it says that its header has " + std::to_string(length) + " bytes; expected at most 8"));
  }
  // There, and still too long: a file of holes.
  WriteBytes(BytesOf<uint64_t>({uint64_t{17} << 20}));
  std::filesystem::resize_file(path_, 18 << 20);
  EXPECT_THAT(Fault(), HasSubstr("expected at most 16777216"));
}

TEST_F(SafetensorsTest, HeadersThatLie) {
  const std::string eight(8, 'v');
  const auto entry = [](const std::string& fields) { return "{\"w\":{" + fields + "}}"; };
  const std::string f32 = R"("dtype":"F32",)";
  EXPECT_THAT(FaultOf("[]", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(FaultOf("{\"w\":", ""), HasSubstr("not a JSON object"));
  EXPECT_THAT(FaultOf(R"({"w":1})", ""), HasSubstr("tensor \"w\": expected {\"dtype\""));
  EXPECT_THAT(FaultOf(entry(R"("shape":[2],"data_offsets":[0,8])"), eight), HasSubstr("expected {\"dtype\""));
  EXPECT_THAT(FaultOf(entry(R"("dtype":4,"shape":[2],"data_offsets":[0,8])"), eight), HasSubstr("expected {\"dtype\""));
  EXPECT_THAT(FaultOf(entry(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])"), eight),
              HasSubstr("dtype \"F33\" is unknown"));
  for (const char* offsets : {"[0]", "[0,8,8]", "[-8,0]", "[0,8.5]", "[0,\"8\"]", "8", "[0,1e300]", "[0,null]"}) {
    EXPECT_THAT(FaultOf(entry(f32 + R"("shape":[2],"data_offsets":)" + offsets), eight),
                HasSubstr("expected {\"dtype\""))
        << offsets;
  }
  EXPECT_THAT(FaultOf(entry(f32 + R"("shape":[2],"data_offsets":[8,0])"), eight), HasSubstr("are 8 and 0, outside"));
  EXPECT_THAT(FaultOf(entry(f32 + R"("shape":[3],"data_offsets":[0,12])"), eight),
              HasSubstr("are 0 and 12, outside of the 8 bytes"));
  EXPECT_THAT(FaultOf(entry(f32 + R"("shape":[3],"data_offsets":[0,8])"), eight),
              HasSubstr("8 bytes of values, but shape \"3\" of F32 has 12"));
  EXPECT_THAT(FaultOf(entry(f32 + R"("shape":[4294967296,4294967296,4294967296,4],"data_offsets":[0,8])"), eight),
              HasSubstr("its shape is too large"));
  EXPECT_THAT(
      FaultOf(entry(f32 + R"("shape":[2147483647,2147483647,0,2147483647,2147483647],"data_offsets":[0,8])"), eight),
      testing::AnyOf(HasSubstr("too large"), HasSubstr("has 0")));
}

TEST_F(SafetensorsTest, HeadersThatWouldBeSlowToParse) {
  EXPECT_THAT(FaultOf(std::string(100000, '['), ""), HasSubstr("its header is nested more than 3 deep at byte 3"));
  EXPECT_THAT(FaultOf(R"({"w":{"shape":[{}]}})", ""), HasSubstr("nested more than 3 deep at byte 15"));
  EXPECT_THAT(FaultOf("{'\"':" + std::string(100000, '{'), ""), HasSubstr("nested more than 3 deep"))
      << "the parser takes such strings too";
  std::string lists = R"({"w":[)";
  for (int i = 0; i < 2000000; ++i) lists += "[],";
  EXPECT_THAT(FaultOf(lists + "[]]}", ""), HasSubstr("its header has more than 2097152 values"));
  Write(R"({"a\"[[[[{{{{":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "v");
  const auto file = SafetensorsFile::Open(path_);
  ASSERT_TRUE(file.ok()) << file.status() << ": brackets of a name are none";
  EXPECT_TRUE((*file)->entries().contains("a\"[[[[{{{{"));
}

TEST_F(SafetensorsTest, TensorsThatOverlapOrLeaveGaps) {
  const auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  const std::string twelve(12, 'v'), eight(8, 'v');
  EXPECT_THAT(FaultOf(two("[0,4]", "[2,6]"), eight), HasSubstr("tensor \"b\" begins at byte"));
  EXPECT_THAT(FaultOf(two("[0,4]", "[0,4]"), eight), HasSubstr("begins at byte"));
  EXPECT_THAT(FaultOf(two("[0,4]", "[8,12]"), twelve), HasSubstr("but the tensors before it end at"));
  EXPECT_THAT(FaultOf(two("[4,8]", "[8,12]"), twelve), HasSubstr("tensor \"a\" begins at byte"));
  EXPECT_THAT(FaultOf(two("[0,4]", "[4,8]"), twelve), HasSubstr("its tensors end at byte"));
}

TEST_F(SafetensorsTest, ANameTwice) {
  EXPECT_THAT(FaultOf(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                      R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                      "1234"),
              HasSubstr("not a JSON object"));
}

TEST_F(SafetensorsTest, NoFile) {
  EXPECT_EQ(SafetensorsFile::Open(path_).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(SafetensorsFile::Open(folder_).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace hp

// Runs the converters as users do, on tiny inputs, and reads back what they wrote.

#include "data/image.h"

#include "data_test_util.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

namespace hp {
namespace {

using testing::HasSubstr;

struct Outcome {
  int exit_status = -1;
  std::string output;  // stdout and stderr
};

class ConvertTest : public testing::Test {
 protected:
  // The index of compute_image_mean must not go to the user's own cache.
  ConvertTest() { setenv("XDG_CACHE_HOME", (folder_ / "cache").c_str(), 1); }

  Outcome Call(const std::string& command) {
    Outcome outcome;
    FILE* pipe = popen(("cd " + folder_.path() + " && " + command + " 2>&1").c_str(), "r");
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) outcome.output.append(buffer, n);
    const int status = pclose(pipe);
    outcome.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }
  void ExpectSuccess(const std::string& command) {
    const Outcome outcome = Call(command);
    EXPECT_EQ(outcome.exit_status, 0) << command << "\n" << outcome.output;
  }
  // One line names what is wrong, and nothing but `left` lies in the folder afterwards.
  void ExpectFailure(const std::string& command, const std::string& message) {
    const auto before = Names(folder_.path());
    const Outcome outcome = Call(command);
    EXPECT_EQ(outcome.exit_status, 2) << command << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
    EXPECT_EQ(Names(folder_.path()), before);
  }
  static std::set<std::string> Names(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) names.insert(entry.path());
    return names;
  }
  // All records by key.
  std::vector<std::pair<std::string, caffe::Datum>> ReadAll(const std::string& name, DbBackend backend) {
    std::vector<std::pair<std::string, caffe::Datum>> records;
    DatasetOptions options;
    options.cache_dir = "none";
    auto dataset = Dataset::Open(folder_ / name, backend, options);
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    if (!dataset.ok()) return records;
    for (int64_t i = 0; i < (*dataset)->size(); ++i) {
      std::string bytes;
      EXPECT_TRUE((*dataset)->Read(i, &bytes).ok());
      records.emplace_back((*dataset)->key(i), caffe::Datum());
      EXPECT_TRUE(records.back().second.ParseFromString(bytes));
    }
    return records;
  }

  TempFolder folder_;
};

TEST_F(ConvertTest, HelpHasAnExampleAndWrongCommandLinesExit2) {
  for (const std::string tool :
       {CONVERT_CIFAR_DATA, CONVERT_MNIST_DATA, CONVERT_MNIST_SIAMESE_DATA, CONVERT_IMAGESET, COMPUTE_IMAGE_MEAN}) {
    const Outcome help = Call(tool + " --help");
    EXPECT_EQ(help.exit_status, 0) << help.output;
    EXPECT_THAT(help.output, HasSubstr("Example:\n  " + std::filesystem::path(tool).filename().string()));
    EXPECT_EQ(Call(tool).exit_status, 2);
    EXPECT_EQ(Call(tool + " --no_such_flag a b c").exit_status, 2);
    EXPECT_EQ(Call(tool + " a b c d e").exit_status, 2);
  }
  EXPECT_THAT(Call(std::string(CONVERT_IMAGESET) + " --help").output, HasSubstr("--resize_width"));
}

class CifarTest : public ConvertTest {
 protected:
  CifarTest() {
    std::filesystem::create_directory(folder_ / "in");
    for (int file = 1; file <= 6; ++file) {
      std::string bytes;
      for (int i = 0; i < kPerFile; ++i) {
        const int label = (file * 3 + i) % 10;
        const std::string image = NoiseBytes(file * 100 + i, 3072);
        bytes += static_cast<char>(label) + image;
        (file < 6 ? train_ : test_).emplace_back(label, image);
      }
      WriteWholeFile(Path(file), bytes);
    }
  }
  std::string Path(int file) const {
    return folder_ / (file == 6 ? "in/test_batch.bin" : Format("in/data_batch_%d.bin", file));
  }
  void ExpectRecords(const std::string& name, DbBackend backend,
                     const std::vector<std::pair<int, std::string>>& expected) {
    const auto records = ReadAll(name, backend);
    ASSERT_EQ(records.size(), expected.size());
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].first, Format("%05zu", i));
      const caffe::Datum& datum = records[i].second;
      EXPECT_EQ(datum.label(), expected[i].first);
      EXPECT_EQ(datum.data(), expected[i].second);
      EXPECT_EQ(datum.channels(), 3);
      EXPECT_EQ(datum.height(), 32);
      EXPECT_EQ(datum.width(), 32);
    }
  }

  static constexpr int kPerFile = 4;
  const std::string tool_ = CONVERT_CIFAR_DATA;
  std::vector<std::pair<int, std::string>> train_, test_;
};

TEST_F(CifarTest, WritesBothDatabasesInBothKinds) {
  ExpectSuccess(tool_ + " in out");
  ExpectSuccess(tool_ + " in out lmdb");
  ExpectRecords("out/cifar10_train_leveldb", DbBackend::kLevelDb, train_);
  ExpectRecords("out/cifar10_test_leveldb", DbBackend::kLevelDb, test_);
  ExpectRecords("out/cifar10_train_lmdb", DbBackend::kLmdb, train_);
  ExpectRecords("out/cifar10_test_lmdb", DbBackend::kLmdb, test_);
  ExpectFailure(tool_ + " in out", "out/cifar10_train_leveldb already exists");
}

TEST_F(CifarTest, BadInputIsNamed) {
  ExpectFailure(tool_ + " in out hdf5", "\"hdf5\": expected leveldb or lmdb");
  const std::string whole = ReadWholeFile(Path(3));
  WriteWholeFile(Path(3), whole.substr(0, whole.size() - 1));
  ExpectFailure(tool_ + " in out", "in/data_batch_3.bin is truncated or not a CIFAR-10 file: it has 12291 bytes");
  std::string bad_label = whole;
  bad_label[3073] = 17;
  WriteWholeFile(Path(3), bad_label);
  std::filesystem::create_directory(folder_ / "out");
  ExpectFailure(tool_ + " in out", "in/data_batch_3.bin: record 1 has the label 17");
  std::filesystem::remove(Path(3));
  ExpectFailure(tool_ + " in out", "in/data_batch_3.bin: No such file");
}

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
  return bytes;
}

class MnistTest : public ConvertTest {
 protected:
  MnistTest() {
    WriteWholeFile(folder_ / "images",
                   BigEndian(2051) + BigEndian(5) + BigEndian(4) + BigEndian(6) + NoiseBytes(1, 120));
    WriteWholeFile(folder_ / "labels", BigEndian(2049) + BigEndian(5) + std::string("\x05\x00\x04\x01\x09", 5));
  }
  const std::string tool_ = CONVERT_MNIST_DATA;
};

TEST_F(MnistTest, WritesImagesAndLabels) {
  ExpectSuccess(tool_ + " images labels db1");
  ExpectSuccess(tool_ + " --backend=leveldb images labels db2");
  for (const auto& [name, backend] : {std::pair("db1", DbBackend::kLmdb), std::pair("db2", DbBackend::kLevelDb)}) {
    const auto records = ReadAll(name, backend);
    ASSERT_EQ(records.size(), 5u);
    const int labels[] = {5, 0, 4, 1, 9};
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(records[i].first, Format("%08d", i));
      EXPECT_EQ(records[i].second.label(), labels[i]);
      EXPECT_EQ(records[i].second.data(), NoiseBytes(1, 120).substr(24 * i, 24));
      EXPECT_EQ(records[i].second.height(), 4);
      EXPECT_EQ(records[i].second.width(), 6);
    }
  }
}

TEST_F(MnistTest, BadInputIsNamed) {
  ExpectFailure(tool_ + " none labels db", "none: No such file");
  ExpectFailure(tool_ + " labels images db",
                "labels is not an MNIST file of images: its magic number is 2049, expected 2051");
  const std::string whole = ReadWholeFile(folder_ / "images");
  for (const size_t keep : {whole.size() - 1, size_t{10}, size_t{2}}) {
    WriteWholeFile(folder_ / "images", whole.substr(0, keep));
    ExpectFailure(tool_ + " images labels db", "images is truncated");
  }
  WriteWholeFile(folder_ / "images", BigEndian(2051) + std::string(12, '\xff'));
  ExpectFailure(tool_ + " images labels db", "images is truncated");
  WriteWholeFile(folder_ / "images", "\x1f\x8b\x08 and so on");
  ExpectFailure(tool_ + " images labels db", "images is compressed: gunzip it first");
  WriteWholeFile(folder_ / "images", BigEndian(2051) + BigEndian(4) + whole.substr(8));
  ExpectFailure(tool_ + " images labels db", "images has 4 images, but labels has 5 labels");
}

class MnistPairsTest : public MnistTest {
 protected:
  const std::string pairs_ = CONVERT_MNIST_SIAMESE_DATA;
};

// Of 5 images a pair of one and the same comes up soon.
TEST_F(MnistPairsTest, DrawsPairsAndSaysWhetherTheyAreAlike) {
  WriteWholeFile(folder_ / "labels", BigEndian(2049) + BigEndian(5) + std::string("\x05\x00\x04\x05\x09", 5));
  ExpectSuccess(pairs_ + " --pairs=300 images labels db1");
  ExpectSuccess(pairs_ + " --pairs=300 --backend=lmdb images labels db2");
  ExpectSuccess(pairs_ + " --seed=2 images labels db3");
  const auto records = ReadAll("db1", DbBackend::kLevelDb), again = ReadAll("db2", DbBackend::kLmdb);
  ASSERT_EQ(records.size(), 300u);
  ASSERT_EQ(again.size(), 300u);
  EXPECT_EQ(ReadAll("db3", DbBackend::kLevelDb).size(), 5u) << "as many as images";
  std::map<std::string, int> labels;
  for (const int i : {0, 1, 2, 3, 4}) labels[NoiseBytes(1, 120).substr(24 * i, 24)] = i == 3 ? 0 : i;
  std::set<std::pair<std::string, std::string>> drawn;
  for (size_t i = 0; i < records.size(); ++i) {
    const caffe::Datum& datum = records[i].second;
    EXPECT_EQ(records[i].first, Format("%08zu", i));
    EXPECT_EQ(datum.SerializeAsString(), again[i].second.SerializeAsString()) << "the same seed";
    EXPECT_EQ(datum.channels(), 2);
    EXPECT_EQ(datum.height(), 4);
    EXPECT_EQ(datum.width(), 6);
    ASSERT_EQ(datum.data().size(), 48u);
    const std::string first = datum.data().substr(0, 24), second = datum.data().substr(24);
    ASSERT_TRUE(labels.contains(first) && labels.contains(second));
    EXPECT_EQ(datum.label(), labels[first] == labels[second] ? 1 : 0);
    drawn.emplace(first, second);
  }
  EXPECT_EQ(drawn.size(), 25u) << "every pair in either order";
}

TEST_F(MnistPairsTest, BadInputIsNamed) {
  ExpectFailure(pairs_ + " --pairs=-1 images labels db", "-1 pairs; expected 0 to 99999999");
  ExpectFailure(pairs_ + " labels images db", "labels is not an MNIST file of images");
  WriteWholeFile(folder_ / "none", BigEndian(2051) + BigEndian(0) + BigEndian(4) + BigEndian(6));
  WriteWholeFile(folder_ / "no_labels", BigEndian(2049) + BigEndian(0));
  ExpectFailure(pairs_ + " none no_labels db", "none has no images to draw pairs of");
}

class ImageSetTest : public ConvertTest {
 protected:
  ImageSetTest() {
    std::filesystem::create_directories(folder_ / "img/with space");
    std::string list;
    for (int i = 0; i < 6; ++i) {
      const std::string pixels = NoiseBytes(i, 8 * 10 * 3);
      images_.push_back({8, 10, 3, {pixels.begin(), pixels.end()}});
      names_.push_back(i == 2 ? "with space/2.png" : Format("%d.png", i));
      WriteWholeFile(folder_ / ("img/" + names_[i]), *EncodeImage(images_[i], "png"));
      list += names_[i] + Format(" %d\n", i * 11);
    }
    WriteWholeFile(folder_ / "list.txt", list);
  }
  static caffe::Datum RawDatum(const Image& image, int label) {
    caffe::Datum datum;
    datum.set_label(label);
    datum.set_channels(3);
    datum.set_height(image.height);
    datum.set_width(image.width);
    for (int c = 0; c < 3; ++c) {
      for (size_t i = c; i < image.pixels.size(); i += 3) *datum.mutable_data() += static_cast<char>(image.pixels[i]);
    }
    return datum;
  }
  const std::string tool_ = CONVERT_IMAGESET;
  std::vector<Image> images_;
  std::vector<std::string> names_;
};

TEST_F(ImageSetTest, WritesRawImagesInTheOrderOfTheList) {
  ExpectSuccess(tool_ + " --check_size --backend=leveldb img/ list.txt db");
  const auto records = ReadAll("db", DbBackend::kLevelDb);
  ASSERT_EQ(records.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(records[i].first, Format("%08d_", i) + names_[i]);
    const caffe::Datum expected = RawDatum(images_[i], i * 11);
    EXPECT_EQ(records[i].second.data(), expected.data());
    EXPECT_EQ(records[i].second.label(), i * 11);
    EXPECT_EQ(records[i].second.height(), 8);
    EXPECT_EQ(records[i].second.width(), 10);
    EXPECT_FALSE(records[i].second.encoded());
  }
}

TEST_F(ImageSetTest, StoresFilesAsTheyAreOrEncodesThemAnew) {
  ExpectSuccess(tool_ + " --encoded img/ list.txt as_is");
  ExpectSuccess(tool_ + " --encode_type=jpg img/ list.txt jpg");
  const auto as_is = ReadAll("as_is", DbBackend::kLmdb), jpg = ReadAll("jpg", DbBackend::kLmdb);
  ASSERT_EQ(as_is.size(), 6u);
  ASSERT_EQ(jpg.size(), 6u);
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(as_is[i].second.encoded());
    EXPECT_EQ(as_is[i].second.data(), ReadWholeFile(folder_ / ("img/" + names_[i])));
    EXPECT_EQ(jpg[i].second.data().substr(0, 2), "\xff\xd8");
    EXPECT_EQ(DecodeImage(jpg[i].second.data(), ImageColor::kAsStored)->width, 10);
  }
}

TEST_F(ImageSetTest, ResizesAndMakesGray) {
  ExpectSuccess(tool_ + " --gray --resize_width=5 --resize_height=4 img/ list.txt db");
  for (const auto& [key, datum] : ReadAll("db", DbBackend::kLmdb)) {
    EXPECT_EQ(datum.channels(), 1);
    EXPECT_EQ(datum.height(), 4);
    EXPECT_EQ(datum.width(), 5);
    EXPECT_EQ(datum.data().size(), 20u);
  }
}

TEST_F(ImageSetTest, ShufflesBySeed) {
  const auto labels = [&](const std::string& flags, const std::string& name) {
    ExpectSuccess(tool_ + " --shuffle " + flags + " img/ list.txt " + name);
    std::vector<int> found;
    for (const auto& [key, datum] : ReadAll(name, DbBackend::kLmdb)) found.push_back(datum.label());
    return found;
  };
  const auto one = labels("--seed=1", "a");
  EXPECT_EQ(labels("--seed=1", "b"), one);
  EXPECT_NE(labels("--seed=2", "c"), one);
  auto sorted = one;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, (std::vector<int>{0, 11, 22, 33, 44, 55}));
}

TEST_F(ImageSetTest, UnreadableImagesAreLeftOutAndNamed) {
  WriteWholeFile(folder_ / "img/3.png", "no image");
  std::filesystem::remove(folder_ / "img/5.png");
  const Outcome outcome = Call(tool_ + " img/ list.txt db");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("skipped: list.txt:4: img/3.png: cannot decode"));
  EXPECT_THAT(outcome.output, HasSubstr("skipped: list.txt:6: img/5.png: no such file"));
  EXPECT_THAT(outcome.output, HasSubstr("2 of 6 images could not be read"));
  EXPECT_EQ(ReadAll("db", DbBackend::kLmdb).size(), 4u);
  ExpectFailure(tool_ + " wrong/ list.txt db2", "no image can be read; first failure: list.txt:1: wrong/0.png");
}

TEST_F(ImageSetTest, BadInputIsNamed) {
  ExpectFailure(tool_ + " img/ none.txt db", "none.txt");
  WriteWholeFile(folder_ / "bad.txt", "0.png 1\n1.png cat\n");
  ExpectFailure(tool_ + " img/ bad.txt db", "bad.txt:2: \"1.png cat\": expected the name of an image and a label");
  WriteWholeFile(folder_ / "bad.txt", "0.png\n");
  ExpectFailure(tool_ + " img/ bad.txt db", "bad.txt:1: \"0.png\"");
  WriteWholeFile(folder_ / "bad.txt", "\n\n");
  ExpectFailure(tool_ + " img/ bad.txt db", "has no lines");
  WriteWholeFile(folder_ / "img/4.png", *EncodeImage({2, 2, 3, std::vector<unsigned char>(12)}, "png"));
  ExpectFailure(tool_ + " --check_size img/ list.txt db",
                "list.txt:5: 4.png has 12 bytes (3 x 2 x 2), expected 240, the size of the first image");
  ExpectFailure(tool_ + " --encode_type=webp img/ list.txt db",
                "encode_type: no encoder for \"webp\" images; there are \"jpg\"");
  EXPECT_THAT(Call(tool_ + " --resize_width=4 img/ list.txt db").output,
              HasSubstr("images are not resized, as in Caffe, unless both are above 0"));
}

TEST_F(ConvertTest, TheMeanImageIsTheMean) {
  const std::string tool = COMPUTE_IMAGE_MEAN;
  Records records;
  std::vector<double> expected(2 * 3 * 4);
  for (int i = 0; i < 7; ++i) {
    const caffe::Datum datum = NoiseDatum(i, 2, 3, 4, 0);
    records.emplace_back(Format("%03d", i), datum.SerializeAsString());
    for (size_t k = 0; k < expected.size(); ++k) expected[k] += static_cast<unsigned char>(datum.data()[k]) / 7.0;
  }
  WriteRecords(folder_ / "db", DbBackend::kLevelDb, records);
  const Outcome outcome = Call(tool + " --backend=leveldb db mean.binaryproto");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("mean_value channel [1]: "));
  caffe::BlobProto blob;
  ASSERT_TRUE(blob.ParseFromString(ReadWholeFile(folder_ / "mean.binaryproto")));
  EXPECT_EQ(blob.num(), 1);
  EXPECT_EQ(blob.channels(), 2);
  EXPECT_EQ(blob.height(), 3);
  EXPECT_EQ(blob.width(), 4);
  ASSERT_EQ(blob.data_size(), 24);
  for (int k = 0; k < 24; ++k) EXPECT_NEAR(blob.data(k), expected[k], 1e-4);

  ExpectFailure(tool + " db mean2", "db is a LevelDB, not an LMDB database: its backend is LEVELDB");
  ExpectFailure(tool + " none mean2", "database \"none\" does not exist");
  records.emplace_back("100", NoiseDatum(9, 2, 4, 3, 0).SerializeAsString());
  WriteRecords(folder_ / "uneven", DbBackend::kLmdb, records);
  const Outcome uneven = Call(tool + " uneven mean2");
  EXPECT_EQ(uneven.exit_status, 2);
  EXPECT_THAT(uneven.output, HasSubstr("record 7 (key \"100\") of uneven: has the shape 2 4 3, expected 2 3 4"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "mean2"));
}

}  // namespace
}  // namespace hp

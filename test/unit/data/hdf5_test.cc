#include "data/hdf5_dataset.h"
#include "data/record_source.h"
#include "test/support/write_hdf5.h"

#include "data_test_util.h"
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

namespace hp {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class Hdf5DatasetTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const Status hdf5 = CheckHdf5(); !hdf5.ok()) GTEST_SKIP() << "SKIPPED: " << hdf5;
    layer_.add_top("data");
    layer_.add_top("label");
    layer_.set_type("HDF5Data");
  }

  // Values first, first + 1/4, ... and, for each row, its number times 3.
  void WriteRows(const std::string& name, std::vector<int64_t> dims, double first, const std::string& type = "float",
                 const std::string& label_type = "int", std::vector<int64_t> label_dims = {}) {
    test::Hdf5Set data{"data", type, dims, {}}, label{"label", label_type, std::move(label_dims), {}};
    if (label.dims.empty()) label.dims = {dims[0]};
    for (int64_t i = 0; i < Shape(dims).count(); ++i) data.values.push_back(first + 0.25 * static_cast<double>(i));
    for (int64_t i = 0; i < Shape(label.dims).count(); ++i) label.values.push_back(3.0 * static_cast<double>(i));
    ASSERT_TRUE(test::WriteHdf5(folder_ / name, {data, label}).ok());
  }
  StatusOr<std::unique_ptr<Dataset>> Open(const std::string& list) {
    WriteWholeFile(folder_ / "list", list);
    layer_.mutable_hdf5_data_param()->set_source(folder_ / "list");
    return OpenDatasetOf(layer_, {});
  }
  StatusOr<std::unique_ptr<Dataset>> OpenFiles(const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& name : names) list += (folder_ / name) + "\n";
    return Open(list);
  }
  static float LabelOf(Dataset* dataset, int64_t record) {
    float label = -1;
    EXPECT_TRUE(dataset->ReadTop(record, 1, {}, &label).ok());
    return label;
  }
  std::string ErrorOf(const std::vector<std::string>& names) { return OpenFiles(names).status().message(); }

  TempFolder folder_;
  caffe::LayerParameter layer_;
};

TEST_F(Hdf5DatasetTest, RecordsAreTheRowsOfAllFiles) {
  WriteRows("a", {3, 2, 2, 1}, 0);
  WriteRows("b", {2, 2, 2, 1}, 100, "double", "float", {2, 1});
  auto dataset = Open("\n " + (folder_ / "a") + " \r\n\n" + (folder_ / "b"));
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ((*dataset)->size(), 5);
  for (const int64_t record : {4, 0, 3, 2, 1}) {
    caffe::Datum datum;
    ASSERT_TRUE((*dataset)->ReadDatum(record, &datum).ok());
    EXPECT_EQ(Shape({datum.channels(), datum.height(), datum.width()}), Shape({2, 2, 1}));
    const int row = static_cast<int>(record < 3 ? record : record - 3);
    EXPECT_EQ(LabelOf(dataset->get(), record), 3 * row);
    ASSERT_EQ(datum.float_data_size(), 4);
    for (int i = 0; i < 4; ++i)
      EXPECT_EQ(datum.float_data(i), (record < 3 ? 0.0f : 100.0f) + 0.25f * static_cast<float>(4 * row + i));
  }
  EXPECT_EQ((*dataset)->Describe(4), (folder_ / "list") + ":4: " + (folder_ / "b") + ": row 1");
}

TEST_F(Hdf5DatasetTest, ALineMayHaveSeveralFilesOrOneWithBlanksInItsName) {
  for (const char* const name : {"a", "b", "a b"}) WriteRows(name, {3, 2}, 0);
  EXPECT_EQ(Open((folder_ / "a") + "\t " + (folder_ / "b") + "\n" + (folder_ / "a b")).value()->size(), 9);
  EXPECT_EQ(Open((folder_ / "a") + " " + (folder_ / "none")).status().message(),
            (folder_ / "list") + ":1: " + (folder_ / "none") + ": no such file");
  EXPECT_EQ(Open(folder_ / "no file").status().message(),
            (folder_ / "list") + ":1: " + (folder_ / "no file") + ": no such file");
}

TEST_F(Hdf5DatasetTest, DimsThatAreNotThereAreOne) {
  WriteRows("a", {4, 5}, 0);
  caffe::Datum datum;
  ASSERT_TRUE((*OpenFiles({"a"}))->ReadDatum(1, &datum).ok());
  EXPECT_EQ(Shape({datum.channels(), datum.height(), datum.width()}), Shape({5, 1, 1}));
  EXPECT_EQ(datum.float_data(4), 0.25f * 9);
  layer_.mutable_top()->RemoveLast();
  auto unlabelled = OpenFiles({"a"});
  ASSERT_TRUE(unlabelled.ok()) << unlabelled.status();
  ASSERT_TRUE((*unlabelled)->ReadDatum(3, &datum).ok());
  EXPECT_EQ(LabelOf(unlabelled->get(), 3), 0);
}

TEST_F(Hdf5DatasetTest, ManyFilesAreReadByManyThreadsInAnyOrder) {
  std::vector<std::string> names;
  for (int i = 0; i < 40; ++i) {  // more than stay open
    names.push_back(Format("file%d", i));
    WriteRows(names.back(), {3, 2}, 10 * i);
  }
  auto dataset = OpenFiles(names);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const auto read = [&](int64_t step) {
    for (int64_t i = 0; i < 240; ++i) {
      const int64_t record = i * step % 120;
      caffe::Datum datum;
      ASSERT_TRUE((*dataset)->ReadDatum(record, &datum).ok());
      ASSERT_EQ(datum.float_data(0), static_cast<float>(10 * (record / 3)) + 0.5f * static_cast<float>(record % 3));
    }
  };
  std::thread first(read, 7), second(read, 53);
  first.join();
  second.join();
}

// A library that is thread-safe asks each thread apart whether its errors are printed.
TEST_F(Hdf5DatasetTest, TheLibraryPrintsNothingOnAnyThread) {
  WriteRows("a", {3, 100000}, 0);
  auto dataset = OpenFiles({"a"});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(open, gone) != folder_ / "a") continue;
    const int closed_for_reading = ::open("/dev/null", O_WRONLY);
    ASSERT_GE(dup2(closed_for_reading, std::stoi(open.path().filename())), 0);
    close(closed_for_reading);
  }
  testing::internal::CaptureStderr();
  Status status;
  std::thread([&] {
    caffe::Datum datum;
    status = (*dataset)->ReadDatum(2, &datum);
  }).join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_THAT(status.message(), MatchesRegex(".*/a: row 2: cannot be read: no numbers, or damaged"));
}

TEST_F(Hdf5DatasetTest, LabelsOfPixels) {
  WriteRows("a", {3, 2, 2, 1}, 0, "float", "int", {3, 1, 2, 2});
  WriteRows("b", {2, 2, 2, 1}, 100, "double", "double", {2, 1, 2, 2});
  auto dataset = OpenFiles({"a", "b"});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->top_shape(1), (Shape{1, 2, 2}));
  for (const int64_t record : {4, 0, 3, 2, 1}) {
    std::vector<float> labels(4);
    ASSERT_TRUE((*dataset)->ReadTop(record, 1, {}, labels.data()).ok());
    const float first = 12 * static_cast<float>(record < 3 ? record : record - 3);
    EXPECT_EQ(labels, (std::vector<float>{first, first + 3, first + 6, first + 9}));
  }
  const uint64_t fingerprint = (*dataset)->Fingerprint();
  dataset->reset();  // a file that is open is not written
  WriteRows("b", {2, 2, 2, 1}, 100, "double", "double", {2, 2, 2, 1});
  EXPECT_THAT(ErrorOf({"a", "b"}), HasSubstr("has rows of [2 2 1]; expected [1 2 2], as in"));
  ASSERT_TRUE(test::WriteHdf5(folder_ / "a", {{"data", "float", {1, 1}, {0}}, {"label", "int", {1, 2}, {4, 5}}}).ok());
  const uint64_t some = (*OpenFiles({"a"}))->Fingerprint();
  ASSERT_TRUE(test::WriteHdf5(folder_ / "a", {{"data", "float", {1, 1}, {0}}, {"label", "int", {1, 2}, {4, 6}}}).ok());
  EXPECT_NE((*OpenFiles({"a"}))->Fingerprint(), some) << "labels are a part of the data";
  EXPECT_NE(some, fingerprint);
}

TEST_F(Hdf5DatasetTest, WhatDoesNotFitIsNamed) {
  WriteRows("a", {4, 5}, 0);
  const std::string line = (folder_ / "list") + ":2: ";
  const auto with = [&](const std::string& name) { return ErrorOf({"a", name}); };
  WriteRows("b", {4, 6}, 0);
  EXPECT_EQ(with("b"),
            line + (folder_ / "b") + ": dataset \"data\" has rows of [6]; expected [5], as in " + (folder_ / "a"));
  WriteRows("b", {4}, 0);
  EXPECT_THAT(with("b"), HasSubstr("dataset \"data\" has rows of one number; expected [5]"));
  WriteRows("b", {4, 5, 1, 1, 1}, 0);
  EXPECT_THAT(with("b"), HasSubstr("has the shape [4 5 1 1 1]; expected [rows] and up to three dims behind"));
  WriteRows("b", {4, 5}, 0, "float", "int", {4, 2});
  EXPECT_EQ(with("b"), line + (folder_ / "b") + ": dataset \"label\" has rows of [2]; expected one number, as in " +
                           (folder_ / "a"));
  WriteRows("b", {4, 5}, 0, "float", "int", {4, 1, 2, 1, 2});
  EXPECT_THAT(with("b"), HasSubstr("dataset \"label\" has the shape [4 1 2 1 2]; expected [rows] and up to three"));
  WriteRows("b", {4, 5}, 0, "float", "int", {3});
  EXPECT_THAT(with("b"), HasSubstr("dataset \"label\" has the shape [3]; expected [4] or [4, ...], as many"));
  ASSERT_TRUE(test::WriteHdf5(folder_ / "b", {{"data", "float", {1, 5}, std::vector<double>(5)}}).ok());
  EXPECT_EQ(with("b"), line + (folder_ / "b") + ": dataset \"label\" is not there; it is named as the layer's top 1");
  ASSERT_TRUE(test::WriteHdf5(folder_ / "b", {{"label", "float", {1}, {1}}}).ok());
  EXPECT_THAT(with("b"), HasSubstr("dataset \"data\" is not there; it is named as the layer's top 0"));
}

// Three tops, of which the first is a number for each row.
TEST_F(Hdf5DatasetTest, AnyNumberOfTops) {
  layer_.add_top("more");
  const auto write = [&](double last) {
    ASSERT_TRUE(test::WriteHdf5(folder_ / "a", {{"data", "int", {2}, {5, 6}},
                                                {"label", "float", {2, 3}, {1, 2, 3, 4, 5, 6}},
                                                {"more", "double", {2, 1, 1}, {-0.5, last}}})
                    .ok());
  };
  write(0.25);
  auto dataset = OpenFiles({"a"});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->tops(), 3);
  EXPECT_EQ((*dataset)->top_shape(1), Shape{3});
  EXPECT_EQ((*dataset)->top_shape(2), (Shape{1, 1}));
  EXPECT_EQ((*dataset)->first_shape({9, 9, 9}), Shape()) << "a number for each row";
  caffe::Datum datum;
  ASSERT_TRUE((*dataset)->ReadDatum(1, &datum).ok());
  EXPECT_EQ(Shape({datum.channels(), datum.height(), datum.width()}), Shape({1, 1, 1}));
  EXPECT_EQ(datum.float_data(0), 6);
  std::vector<float> row(3);
  ASSERT_TRUE((*dataset)->ReadTop(1, 1, datum, row.data()).ok());
  EXPECT_EQ(row, (std::vector<float>{4, 5, 6}));
  ASSERT_TRUE((*dataset)->ReadTop(1, 2, datum, row.data()).ok());
  EXPECT_EQ(row[0], 0.25f);
  const uint64_t fingerprint = (*dataset)->Fingerprint();
  dataset->reset();
  write(0.5);
  EXPECT_NE((*OpenFiles({"a"}))->Fingerprint(), fingerprint);
}

// A number that a net learns to tell, rather than a class, need not be whole; which of the two it is, its readers know.
TEST_F(Hdf5DatasetTest, OneLabelOfARowMayBeAnyNumber) {
  ASSERT_TRUE(test::WriteHdf5(folder_ / "a", {{"data", "float", {3, 5}, std::vector<double>(15)},
                                              {"label", "double", {3, 1}, {1, 0.25, -3e9}}})
                  .ok());
  const auto dataset = OpenFiles({"a"});
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_EQ((*dataset)->top_shape(1), Shape{1});
  const float expected[] = {1, 0.25f, -3e9f};
  for (int64_t record = 0; record < 3; ++record) {
    EXPECT_EQ(LabelOf(dataset->get(), record), expected[record]);
  }
  ASSERT_TRUE(test::WriteHdf5(folder_ / "b", {{"data", "float", {3, 5}, std::vector<double>(15)},
                                              {"label", "double", {3, 1}, {1, 0.5, -3e9}}})
                  .ok());
  EXPECT_NE(OpenFiles({"b"}).value()->Fingerprint(), (*dataset)->Fingerprint());
}

TEST_F(Hdf5DatasetTest, FilesThatCannotBeReadAreNamed) {
  WriteRows("a", {4, 5}, 0);
  EXPECT_EQ(ErrorOf({"a", "none"}), (folder_ / "list") + ":2: " + (folder_ / "none") + ": no such file");
  WriteWholeFile(folder_ / "text", "no HDF5 here");
  EXPECT_EQ(OpenFiles({"text"}).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ErrorOf({"text"}), (folder_ / "list") + ":1: " + (folder_ / "text") + ": no HDF5 file, or a truncated one");
  EXPECT_EQ(Open(ReadWholeFile(folder_ / "a")).status().message(),
            (folder_ / "list") + " is an HDF5 file; expected a list of such files");
  EXPECT_EQ(Open(" \n").status().message(), "list of HDF5 files " + (folder_ / "list") + " has no lines");
  layer_.mutable_hdf5_data_param()->set_source(folder_ / "absent");
  EXPECT_EQ(OpenDatasetOf(layer_, {}).status().message(),
            "list of HDF5 files: " + (folder_ / "absent") + ": no such file");
}

TEST_F(Hdf5DatasetTest, AFileThatIsReplacedIsNoticed) {
  std::vector<std::string> names;
  for (int i = 0; i < 30; ++i) {
    names.push_back(Format("file%d", i));
    WriteRows(names.back(), {1, 2}, i);
  }
  auto dataset = OpenFiles(names);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_TRUE((*dataset)->CheckUnchanged().ok());
  std::filesystem::remove(folder_ / "file3");
  WriteRows("file3", {2, 2}, 7);
  EXPECT_THAT((*dataset)->CheckUnchanged().message(), MatchesRegex(".*/list:4: .*/file3 was replaced or changed .*"));
  caffe::Datum datum;
  for (int64_t record = 10; record < 30; ++record) ASSERT_TRUE((*dataset)->ReadDatum(record, &datum).ok());
  EXPECT_EQ((*dataset)->ReadDatum(3, &datum).code(), StatusCode::kFailedPrecondition);
}

TEST_F(Hdf5DatasetTest, OrderIsThatOfTheLayer) {
  const RecordOrder shuffled(100, true, 3);
  EXPECT_EQ(RecordOrderOf(layer_, 100, 3, true).Record(5), 5);
  layer_.mutable_hdf5_data_param()->set_shuffle(true);
  for (int64_t s = 0; s < 200; ++s) ASSERT_EQ(RecordOrderOf(layer_, 100, 3, true).Record(s), shuffled.Record(s));
}

}  // namespace
}  // namespace hp

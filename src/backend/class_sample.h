#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace hp {

/// The classes that a sampled product (SampledProductDesc) computes for one batch, of those of one shard, which count
/// from 0. The first `drawn` columns are the classes that were drawn for the update, ascending; behind them stand the
/// batch's labels that were not drawn, ascending as well.
struct BatchSample {
  int64_t drawn = 0;
  std::vector<int64_t> classes = {};        ///< by column
  std::vector<int64_t> gradient_rows = {};  ///< by column: the class's row in the gradient of the update

  int64_t columns() const { return static_cast<int64_t>(classes.size()); }
  /// The column of a class; -1: it has none here.
  int64_t ColumnOf(int64_t label) const {
    const auto first_label = classes.begin() + drawn;
    for (const auto& [begin, end] : {std::pair(classes.begin(), first_label), std::pair(first_label, classes.end())}) {
      const auto found = std::lower_bound(begin, end, label);
      if (found != end && *found == label) return found - classes.begin();
    }
    return -1;
  }
};

/// The same for all batches of an update (iter_size), which draw the same classes: so a row of the gradient of a class
/// that was drawn is its column in every batch. Labels that were not get rows of their own, batch by batch.
struct UpdateSample {
  int64_t drawn = 0;
  std::vector<int64_t> classes = {};      ///< by row of the gradient
  std::vector<BatchSample> batches = {};  ///< those whose labels are known, from batch 0 on
  int64_t count = 1;                      ///< batches of the update, all of the same number of samples

  int64_t rows() const { return static_cast<int64_t>(classes.size()); }
};

}  // namespace hp

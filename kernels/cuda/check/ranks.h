// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "kernels/cuda/check/cases.h"

namespace piper::cuda {

/// One rank of an all-to-all over CUDA IPC: a process that piper-cuda-check starts of itself.
struct RankOptions {
    std::string group_file;
    int rank = 0;
    int ranks = 1;
    bool timed = false;
};

/// The rank's part; prints its number of wrong values, or rank 0 the times. Throws DeviceError.
void runRank(const Device& device, const RankOptions& options);

void addRankCases(std::vector<CorrectnessCase>& cases);
void addRankTimings(std::vector<TimingCase>& cases);

}  // namespace piper::cuda

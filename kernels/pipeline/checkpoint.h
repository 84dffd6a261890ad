// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "core/base/result.h"
#include "kernels/pipeline/stage_model.h"

namespace piper {

// A checkpoint is a folder step-N: one file a rank with what that rank alone keeps, and
// checkpoint.json. It is written beside its place and renamed when every rank is done, so that a
// folder without ".partial" is whole. Every record names a rectangle of a tensor of the whole
// model: another layout reads what it needs of it from any rank's file. The same layout gets the
// same bits back.

/// What a run must share with the checkpoint it goes on from.
struct CheckpointKey {
    std::uint64_t seed = 0;
    std::int64_t global_batch_size = 0, seq_len = 0;
    bool operator==(const CheckpointKey&) const = default;
};

/// Writes DIRECTORY/step-N and takes away all but the `keep` newest. Collective over the world.
/// Errors: Io with the file; every rank gets one when any rank has one.
[[nodiscard]] Status writeCheckpoint(const std::filesystem::path& directory, std::int64_t step,
                                     const CheckpointKey& key, StageModel& model,
                                     const RankGroups& groups, Communicator& world,
                                     Backend& backend, std::int64_t keep = 2);

/// Reads weights, moments and the number of updates into `model`; returns the step to go on with.
/// `path`: a step-N folder, or a folder of them, of which the newest counts.
/// Errors: NotFound; InvalidInput for another model, batch or seed, a tensor that is missing or a
/// torn file, with its name.
[[nodiscard]] Result<std::int64_t> readCheckpoint(const std::filesystem::path& path,
                                                  const CheckpointKey& key, StageModel& model,
                                                  Backend& backend);

/// `path` itself, or its newest whole step-N. Errors: NotFound.
[[nodiscard]] Result<std::filesystem::path> findCheckpoint(const std::filesystem::path& path);

}  // namespace piper

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "kernels/pipeline/stage_model.h"

namespace piper {

// A checkpoint is a folder step-N: one file a rank with what that rank alone keeps, and
// checkpoint.json. It is written beside its place and renamed when every rank is done, so that a
// folder without ".partial" is whole. Every record names a rectangle of a tensor of the whole
// model: another layout reads what it needs of it from any rank's file. The same layout gets the
// same bits back. The file `latest` names the folder that was written last: a folder may hold later
// steps of a run that was given up, which stay until a run passes them.

/// What a run must share with the checkpoint it goes on from.
struct CheckpointKey {
    std::uint64_t seed = 0;
    std::int64_t global_batch_size = 0, seq_len = 0;
    bool operator==(const CheckpointKey&) const = default;
};

/// Told what is done next, before each record; an error ends the work. May be empty.
using CheckpointProgress = std::function<Status(std::string_view doing)>;

/// Writes DIRECTORY/step-N, names it in DIRECTORY/latest and takes away all but the `keep` newest
/// of it and the earlier ones. Collective over the world.
/// Errors: Io with the file; every rank gets one when any rank has one.
[[nodiscard]] Status writeCheckpoint(const std::filesystem::path& directory, std::int64_t step,
                                     const CheckpointKey& key, StageModel& model,
                                     const RankGroups& groups, Communicator& world,
                                     Backend& backend, const CheckpointProgress& progress = {},
                                     std::int64_t keep = 2);

/// Reads weights, moments and the number of updates into `model`; returns the step to go on with.
/// `path`: a step-N folder, or a folder of them: see findCheckpoint.
/// Errors: NotFound; InvalidInput for another model, batch or seed, a tensor that is missing or a
/// torn or malformed file, with its name.
[[nodiscard]] Result<std::int64_t> readCheckpoint(const std::filesystem::path& path,
                                                  const CheckpointKey& key, StageModel& model,
                                                  Backend& backend,
                                                  const CheckpointProgress& progress = {});

/// `path` itself, or the step-N in it that was written last: the one `latest` names, without it the
/// whole one of the highest step. Errors: NotFound.
[[nodiscard]] Result<std::filesystem::path> findCheckpoint(const std::filesystem::path& path);

}  // namespace piper

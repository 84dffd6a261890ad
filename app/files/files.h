// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/json_fwd.h"
#include "core/base/result.h"
#include "core/plan/plan.h"

namespace piper::app {

/// The whole file. Errors: NotFound or Io with the path and the system's reason.
[[nodiscard]] Result<std::string> readTextFile(const std::filesystem::path& path);
/// Writes through a temporary name and a rename, so that a full disk leaves the old file.
Status writeTextFile(const std::filesystem::path& path, std::string_view content);

/// A new empty directory of this machine, removed with its content at the end of its scope.
class TemporaryDirectory {
public:
    /// Errors: Io with the system's reason.
    [[nodiscard]] static Result<TemporaryDirectory> make();
    ~TemporaryDirectory();
    TemporaryDirectory(TemporaryDirectory&& other) noexcept;
    TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

private:
    TemporaryDirectory() = default;
    std::filesystem::path m_path;  ///< empty once moved from
};

/// A model file: Hugging Face config.json, our own JSON, or a directory that holds a config.json.
[[nodiscard]] Result<ModelSpec> loadModel(const std::filesystem::path& path);
/// A cluster file, or "DEVICE:NODES" for the usual cluster of a catalogue device ("H100 SXM:8").
[[nodiscard]] Result<ClusterSpec> loadCluster(const std::string& path_or_name);
/// A plan file; model and cluster may be paths in it, relative to the plan.
[[nodiscard]] Result<Plan> loadPlan(const std::filesystem::path& path);

/// A program of ours next to this one.
[[nodiscard]] std::filesystem::path siblingProgram(std::string_view name);
/// A file of the bundled examples ("plans/olmoe-tiny.json"): installed, or in the source tree.
[[nodiscard]] Result<std::filesystem::path> bundledExample(std::string_view name);

}  // namespace piper::app

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <fstream>

#include "collectors/import/import.h"
#include "core/base/json.h"
#include "core/run/report.h"
#include "tests/support/device_sums.h"
#include "tests/support/paths.h"

namespace piper::test {

inline std::filesystem::path traceFile(const std::string& name) {
    return sourceDir() / "tests/data/traces" / name;
}

/// A file with this text, in a folder of its own.
class TextFile {
public:
    explicit TextFile(std::string_view text, const std::string& name = "trace.json")
        : m_path(m_directory.path() / name) {
        std::ofstream(m_path, std::ios::binary) << text;
    }
    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

private:
    TemporaryDirectory m_directory;
    std::filesystem::path m_path;
};

/// Imports and reads back through a workspace file, as the programs do.
struct RoundTrip {
    TemporaryDirectory directory;
    Result<Workspace> workspace = Workspace::create(directory.path() / "w.piper");
    Result<ImportSummary> summary;

    explicit RoundTrip(const std::vector<std::filesystem::path>& paths,
                       const ImportOptions& options = {})
        : summary(importTraces(paths, *workspace, options)) {}

    [[nodiscard]] piper::Run run(std::size_t i = 0) {
        EXPECT_TRUE(summary.ok()) << (summary.ok() ? "" : summary.error().text());
        if (!summary.ok() || i >= summary->written.size()) return {};
        const Result<Run> read = workspace->readRun(summary->written[i].run);
        EXPECT_TRUE(read.ok()) << (read.ok() ? "" : read.error().text());
        return read.ok() ? *read : Run{};
    }
    /// What `piperctl stats --json` prints of a run.
    [[nodiscard]] Json statistics(std::size_t i = 0, std::string_view rule = {}) {
        const Run read = run(i);
        const Result<CommunicationRule> parsed = CommunicationRule::parse(rule);
        Json out = Json::object();
        addDeviceStatistics(
            read, deviceStatistics(read, rule.empty() ? CommunicationRule::standard() : *parsed),
            out);
        return out;
    }
};

}  // namespace piper::test

// SPDX-License-Identifier: Apache-2.0
// Workspace files, read in every way.
#include <numeric>

#include "collectors/store/workspace.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::filesystem::path& path = piper::fuzz::inputFile(data, size);
    piper::Result<piper::Workspace> workspace = piper::Workspace::open(path);
    if (!workspace.ok()) return 0;
    (void)workspace->check();
    const auto runs = workspace->runs();
    if (!runs.ok()) return 0;
    for (const piper::RunSummary& run : *runs) {
        (void)workspace->readRun(run.name);
        const auto timeline = piper::Workspace::openTimeline(path, run.name);
        if (!timeline.ok()) continue;
        std::vector<std::size_t> rows((*timeline)->rows().size());
        std::iota(rows.begin(), rows.end(), std::size_t{0});
        for (const std::int64_t end : {std::int64_t{1} << 20, std::int64_t{1} << 40}) {
            (void)(*timeline)->view({0, end}, end >> 11);
            (void)(*timeline)->totals({1, end}, rows);
            piper::EventQuery query;
            query.window = {1, end};
            query.text = "a";
            (void)(*timeline)->find(query);
        }
    }
    return 0;
}

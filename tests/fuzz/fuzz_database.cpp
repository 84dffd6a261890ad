// SPDX-License-Identifier: Apache-2.0
// SQLite files: workspace files and exports of Nsight Systems.
#include "collectors/import/imported.h"
#include "collectors/store/workspace.h"
#include "tests/fuzz/input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::filesystem::path& path = piper::fuzz::inputFile(data, size);
    (void)piper::importNsys(path);
    piper::Result<piper::Workspace> workspace = piper::Workspace::open(path);
    if (!workspace.ok()) return 0;
    (void)workspace->check();
    const auto runs = workspace->runs();
    if (!runs.ok()) return 0;
    for (const piper::RunSummary& run : *runs) {
        (void)workspace->readRun(run.name);
        (void)workspace->viewport(run.name, {0, std::int64_t{1} << 40}, std::int64_t{1} << 20);
    }
    return 0;
}

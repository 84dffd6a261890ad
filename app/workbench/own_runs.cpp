// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/own_runs.h"

#include <unistd.h>

#include "ui/models/text_format.h"

namespace piper::app {
namespace fs = std::filesystem;

void showWorkspace(ui::Workbench& bench, const QString& path, const QString& a, const QString& b) {
    bench.runs.openWorkspace(path, [a, b, &bench] {
        QString shown = b;
        for (const ui::RunSummary& run : bench.runs.history().runs())
            if (b.isEmpty() && run.kind == RunKind::Measured) shown = run.name;
        bench.pair.select(bench.runs.workspace(), a, shown);
    });
}

Result<bool> startOwnRuns(const fs::path& example, const fs::path& own) {
    std::error_code error;
    if (fs::exists(own, error)) return false;
    // Two windows may start at once: each copies for itself, and one of them names its copy.
    const fs::path part = fmt::format("{}.{}.part", own.string(), ::gettid());
    fs::create_directories(own.parent_path(), error);
    if (!error) fs::copy_file(example, part, fs::copy_options::overwrite_existing, error);
    if (!error) fs::permissions(part, fs::perms::owner_write, fs::perm_options::add, error);
    if (!error) {
        fs::create_hard_link(part, own, error);
        // Some file systems know no links.
        if (error && error != std::errc::file_exists) fs::rename(part, own, error);
    }
    std::error_code ignored;
    fs::remove(part, ignored);
    if (error == std::errc::file_exists) return false;
    if (error)
        return fail(ErrorCode::Io, "cannot put the example runs of {} into {}: {}",
                    example.string(), own.string(), error.message());
    return true;
}

void openOwnRuns(ui::Workbench& bench, const std::optional<fs::path>& example) {
    const fs::path own = bench.runs.targetWorkspace().toStdString();
    bench.executor.submit(
        QStringLiteral("open-own-runs"), ui::Executor::Lane::Background,
        [&bench, example, own](const ui::Executor::Context&) -> ui::Executor::OnWindow {
            const Result<bool> made = example ? startOwnRuns(*example, own) : Result<bool>(false);
            std::error_code ignored;
            const bool there = fs::exists(own, ignored);
            return [&bench, made, there, path = ui::text(own.string())] {
                if (!made.ok()) Q_EMIT bench.runs.failed(ui::errorText(made.error()));
                // The file of the command line or of the user came first.
                if (!there || !bench.runs.workspace().isEmpty()) return;
                if (made.ok() && *made)
                    showWorkspace(bench, path, {}, {});
                else
                    bench.runs.openWorkspace(path);
            };
        });
}

}  // namespace piper::app

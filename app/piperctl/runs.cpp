// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>

#include "app/piperctl/command.h"
#include "collectors/store/workspace.h"
#include "core/base/json.h"

namespace piper::app {
namespace {

struct RunsOptions {
    std::string file, run;
    std::vector<std::string> tags, untag;
    std::optional<std::string> note;
};

/// What was given as one or several options, with commas in them or not.
Result<std::vector<std::string>> tagsOf(const std::vector<std::string>& given) {
    return parseTags(tagsText(given));
}

Outcome runRuns(const RunsOptions& options, bool json) {
    PIPER_ASSIGN(Workspace file, Workspace::open(options.file));
    PIPER_ASSIGN(const std::vector<std::string> wanted, tagsOf(options.tags));
    PIPER_ASSIGN(const std::vector<RunSummary> runs, file.runs());
    Json document = {{"runs", Json::array()}};
    TextTable table({"run", "kind", "outcome", "started", "ranks", "steps", "tags", "note"});
    for (const RunSummary& r : runs) {
        if (!std::ranges::includes(r.labels.tags, wanted)) continue;
        document["runs"].push_back({{"name", r.name},
                                    {"kind", toText(r.kind)},
                                    {"outcome", toText(r.outcome)},
                                    {"outcome_reason", r.outcome_reason},
                                    {"started_at", r.started_at},
                                    {"ranks", r.ranks},
                                    {"steps", r.steps},
                                    {"events", r.events},
                                    {"tags", r.labels.tags},
                                    {"note", r.labels.note}});
        table.add({r.name, std::string(toText(r.kind)), std::string(toText(r.outcome)),
                   r.started_at, std::to_string(r.ranks), std::to_string(r.steps),
                   tagsText(r.labels.tags), r.labels.note.substr(0, r.labels.note.find('\n'))});
    }
    if (json)
        printJson(document);
    else
        fmt::print("{}", table.text());
    for (const std::string& damage : file.damage()) printMessage("damaged: " + damage);
    return file.damage().empty() ? 0 : 1;
}

Outcome runLabel(const RunsOptions& options) {
    PIPER_ASSIGN(const std::vector<std::string> add, tagsOf(options.tags));
    PIPER_ASSIGN(const std::vector<std::string> remove, tagsOf(options.untag));
    PIPER_ASSIGN(Workspace file, Workspace::open(options.file, Workspace::Mode::ReadWrite));
    PIPER_ASSIGN(const Run run, file.readHeader(options.run));
    RunLabels labels = labelsOf(run);
    if (options.note) labels.note = *options.note;
    labels.tags.insert(labels.tags.end(), add.begin(), add.end());
    std::erase_if(labels.tags, [&](const std::string& tag) {
        return std::ranges::find(remove, tag) != remove.end();
    });
    PIPER_ASSIGN(labels.tags, tagsOf(labels.tags));
    PIPER_TRY(file.setLabels(options.run, labels));
    PIPER_TRY(file.close());
    return 0;
}

}  // namespace

void addRuns(CommandSet& commands) {
    const auto runs = std::make_shared<RunsOptions>();
    CLI::App& list = commands.add("runs", "Runs of a workspace file with their tags and notes",
                                  [runs, &commands] { return runRuns(*runs, commands.json()); });
    list.add_option("file", runs->file, "Workspace file")->required();
    list.add_option("--tag", runs->tags, "Only runs that have this tag; several: all of them");

    const auto label = std::make_shared<RunsOptions>();
    CLI::App& edit = commands.add("label", "Write a note and tags on a run of a workspace file",
                                  [label] { return runLabel(*label); });
    edit.add_option("file", label->file, "Workspace file")->required();
    edit.add_option("run", label->run, "Name of the run")->required();
    edit.add_option("--note", label->note, "Text in place of its note; '' takes it away");
    edit.add_option("--tag", label->tags, "Adds a tag; several are possible");
    edit.add_option("--untag", label->untag, "Takes a tag away; several are possible");
}

}  // namespace piper::app

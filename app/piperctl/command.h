// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <string>
#include <vector>

#include "app/piperctl/output.h"
#include "core/base/result.h"

namespace piper::app {

/// What a command ends with: its exit status, or an error that is printed and mapped to one.
using Outcome = Result<int>;

/// Adds `name` to the program; `run` is called when the user chose it.
class CommandSet {
public:
    explicit CommandSet(CLI::App& root) : m_root(root) {}

    /// The command's own parser, to which options are added; every command has --json.
    CLI::App& add(const std::string& name, const std::string& description,
                  std::function<Outcome()> run);
    [[nodiscard]] bool json() const { return m_json; }
    /// Runs the chosen command: its exit status.
    [[nodiscard]] int runChosen();

private:
    struct Command {
        CLI::App* app;
        std::function<Outcome()> run;
    };
    CLI::App& m_root;
    std::vector<Command> m_commands;
    bool m_json = false;
};

void addBench(CommandSet& commands);
void addCheck(CommandSet& commands);
void addPredict(CommandSet& commands);
void addSearch(CommandSet& commands);
void addPlacement(CommandSet& commands);
void addCapacity(CommandSet& commands);
void addSensitivity(CommandSet& commands);
void addValidate(CommandSet& commands);
void addRun(CommandSet& commands);
void addJobs(CommandSet& commands);  ///< jobs, attach, cancel, fetch
void addRuns(CommandSet& commands);  ///< runs, label
void addSession(CommandSet& commands);
void addCalibrate(CommandSet& commands);
void addExport(CommandSet& commands);
void addImport(CommandSet& commands);
void addCompare(CommandSet& commands);  ///< compare, stats

}  // namespace piper::app

// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/command_line.h"
#include "app/piperctl/command.h"

namespace piper::app {

CLI::App& CommandSet::add(const std::string& name, const std::string& description,
                          std::function<Outcome()> run) {
    CLI::App* app = m_root.add_subcommand(name, description);
    app->add_flag("--json", m_json, "One JSON document on standard output");
    m_commands.push_back({app, std::move(run)});
    return *app;
}

int CommandSet::runChosen() {
    for (const Command& command : m_commands) {
        if (!command.app->parsed()) continue;
        const Outcome outcome = command.run();
        return outcome.ok() ? *outcome : printError(outcome.error());
    }
    printMessage(m_root.help());
    return 2;
}

}  // namespace piper::app

int main(int argc, char** argv) {
    CLI::App root{"Plans, predicts, runs and compares Mixture-of-Experts training"};
    root.name("piperctl");
    root.require_subcommand(0, 1);
    piper::app::CommandSet commands(root);
    piper::app::addCheck(commands);
    piper::app::addPredict(commands);
    piper::app::addSearch(commands);
    piper::app::addPlacement(commands);
    piper::app::addCapacity(commands);
    piper::app::addSensitivity(commands);
    piper::app::addValidate(commands);
    piper::app::addRun(commands);
    piper::app::addJobs(commands);
    piper::app::addRuns(commands);
    piper::app::addSession(commands);
    piper::app::addCalibrate(commands);
    piper::app::addBench(commands);
    piper::app::addImport(commands);
    piper::app::addCompare(commands);
    piper::app::addExport(commands);
    piper::app::completeCommandLine(root);
    if (const auto status = piper::app::readCommandLine(root, argc, argv)) return *status;
    return commands.runChosen();
}

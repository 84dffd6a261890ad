// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "app/common/sessions.h"
#include "app/piperctl/command.h"
#include "core/base/json.h"
#include "sessions/host_facts.h"

namespace piper::app {
namespace {

struct SessionOptions {
    std::string name = "local";
};

Json factsJson(const HostFacts& facts) {
    Json programs = Json::object();
    for (const auto& [program, version] : facts.programs) programs[program] = version;
    return {{"host", facts.host},
            {"system", facts.system},
            {"processor", facts.processor},
            {"processors", facts.processors},
            {"memory_bytes", static_cast<std::int64_t>(facts.memory.value)},
            {"programs", std::move(programs)}};
}

Outcome runDiscover(const SessionOptions& options, bool json) {
    PIPER_ASSIGN(const auto connection, openSession(options.name));
    PIPER_ASSIGN(const HostFacts facts, discoverHost(*connection));
    if (json) {
        printJson(factsJson(facts));
        return 0;
    }
    fmt::print("host       {}\nsystem     {}\nprocessor  {} x {}\nmemory     {}\n", facts.host,
               facts.system, facts.processors, facts.processor, humanBytes(facts.memory));
    for (const auto& [program, version] : facts.programs)
        fmt::print("{:<10} {}\n", program, version);
    return 0;
}

Outcome runList(bool json) {
    if (json)
        printJson({{"sessions", Json::array({{{"name", "local"}, {"kind", "local"}}})}});
    else
        fmt::print("local  this machine\n");
    return 0;
}

}  // namespace

void addSession(CommandSet& commands) {
    const auto options = std::make_shared<SessionOptions>();
    const auto action = std::make_shared<std::string>();
    CLI::App& app = commands.add(
        "session", "Sessions: list them, look at their machine", [options, action, &commands] {
            return *action == "list" ? runList(commands.json())
                                     : runDiscover(*options, commands.json());
        });
    app.add_option("action", *action, "list, test or discover")
        ->required()
        ->check(CLI::IsMember({"list", "test", "discover"}));
    app.add_option("name", options->name, "Session")->capture_default_str();
}

}  // namespace piper::app

// SPDX-License-Identifier: Apache-2.0
#include "sessions/host_facts.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace piper {
namespace {

std::string firstLine(std::string text) {
    text.resize(std::min(text.size(), text.find('\n')));
    return text;
}

/// The value after `key` and a colon or equals sign on the line that starts with it.
std::string valueOf(const std::string& text, const std::string& key) {
    std::size_t at = text.starts_with(key) ? 0 : text.find("\n" + key);
    if (at == std::string::npos) return {};
    const std::size_t mark = text.find_first_of(":=", at + key.size());
    const std::size_t end = text.find('\n', at + 1);
    if (mark == std::string::npos || mark > end) return {};
    std::string value = text.substr(mark + 1, end - mark - 1);
    const std::size_t begin = value.find_first_not_of(" \t\"");
    const std::size_t last = value.find_last_not_of(" \t\"");
    return begin == std::string::npos ? std::string() : value.substr(begin, last - begin + 1);
}

std::string versionOf(Connection& connection, const std::string& program) {
    const Result<CommandResult> r = connection.run({program, "--version"});
    if (!r.ok() || r->exit_status == 127) return "not found";
    return firstLine(r->output.empty() ? r->error_output : r->output);
}

}  // namespace

Result<HostFacts> discoverHost(Connection& connection) {
    HostFacts facts;
    PIPER_ASSIGN(const CommandResult host, connection.run({"uname", "-n"}));
    facts.host = firstLine(host.output);
    PIPER_ASSIGN(const CommandResult processors, connection.run({"nproc"}));
    facts.processors = std::atoll(processors.output.c_str());
    const auto text = [&](const char* path) {
        Result<std::string> content = connection.readFile(path, 1 << 16);
        return content.ok() ? std::move(content).value() : std::string();
    };
    facts.processor = valueOf(text("/proc/cpuinfo"), "model name");
    facts.system = valueOf(text("/etc/os-release"), "PRETTY_NAME");
    facts.memory = Bytes(1024.0 * std::atof(valueOf(text("/proc/meminfo"), "MemTotal").c_str()));
    for (const char* program : {"mpirun", "srun", "nvcc", "nvidia-smi"})
        facts.programs[program] = versionOf(connection, program);
    return facts;
}

}  // namespace piper

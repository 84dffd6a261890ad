// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <map>
#include <sstream>

#include "sessions/display_text.h"
#include "sessions/job.h"
#include "sessions/script_launcher.h"
#include "sessions/shell_quote.h"

namespace piper {
namespace {

/// "key value" lines of what a launch depends on.
std::string checkScript(const LaunchRequest& request, const LauncherOptions& options) {
    return ownLines(options) +
           fmt::format(
               "echo processors $(nproc 2>/dev/null)\n"
               "echo devices $(nvidia-smi -L 2>/dev/null | grep -c '^GPU ')\n"
               "echo interfaces $(ls /sys/class/net 2>/dev/null)\n"
               "echo connections $CUDA_DEVICE_MAX_CONNECTIONS\n"
               "w={}\n"
               "if [ -e \"$w\" ]; then echo worker there\n"
               "ldd \"$w\" 2>/dev/null | awk '/not found/ {{ print \"missing\", $1 }}'\nfi\n",
               shellQuote(request.worker));
}

class Checks {
public:
    Checks(const LaunchRequest& request, const LauncherOptions& options, std::string_view launcher,
           const std::string& answers)
        : m_request(request), m_options(options), m_slurm(launcher != "mpirun") {
        std::istringstream in(answers);
        std::string line;
        while (std::getline(in, line)) {
            const std::size_t blank = line.find(' ');
            if (blank == std::string::npos) continue;
            m_answers.emplace(line.substr(0, blank), displayLine(line.substr(blank + 1)));
        }
    }

    std::vector<std::string> run() {
        libraries();
        if (m_slurm) {  // the host that was asked is not the one that computes
            if (m_request.plan.cluster.device.kind == DeviceKind::Gpu) connections();
            return std::move(m_warnings);
        }
        const bool alone = m_options.hosts.empty();
        if (m_request.plan.cluster.device.kind == DeviceKind::Gpu)
            devices();
        else if (alone)
            processors();
        interfaces();
        slots();
        return std::move(m_warnings);
    }

private:
    [[nodiscard]] std::string answer(const char* key) const {
        const auto found = m_answers.find(key);
        return found == m_answers.end() ? std::string() : found->second;
    }

    void libraries() {
        if (answer("worker").empty())
            m_warnings.push_back(fmt::format("there is no worker at {} yet", m_request.worker));
        const auto [begin, end] = m_answers.equal_range("missing");
        for (auto it = begin; it != end; ++it)
            m_warnings.push_back(
                fmt::format("the worker cannot start: library {} is missing", it->second));
    }

    void processors() {
        const int available = std::atoi(answer("processors").c_str());
        const std::int64_t world = m_request.plan.layout.world();
        if (available > 0 && world > available)
            m_warnings.push_back(
                fmt::format("{} ranks share {} processors: times will not match a prediction made "
                            "for one processor a rank",
                            world, available));
    }

    void devices() {
        const int available = std::atoi(answer("devices").c_str());
        const std::int64_t wanted = m_request.plan.cluster.devices_per_node;
        if (available < wanted)
            m_warnings.push_back(fmt::format(
                "{} tasks a node, but nvidia-smi finds {} devices on the host that was asked (a "
                "log-in node may have fewer than its compute nodes)",
                wanted, available));
        connections();
    }

    void connections() {
        const Layout& layout = m_request.plan.layout;
        if ((layout.tp > 1 || layout.cp > 1) && answer("connections") != "1")
            m_warnings.push_back(fmt::format(
                "CUDA_DEVICE_MAX_CONNECTIONS is {}; tp {} and cp {} overlap in the order of their "
                "launch only with 1 (--line 'export CUDA_DEVICE_MAX_CONNECTIONS=1')",
                answer("connections").empty() ? "not set" : answer("connections"), layout.tp,
                layout.cp));
    }

    void interfaces() {
        const std::string all = " " + answer("interfaces") + " ";
        const std::string& chosen = m_options.network_interface;
        if (!chosen.empty() && all.find(" " + chosen + " ") == std::string::npos)
            m_warnings.push_back(
                fmt::format("there is no interface {} here; there are:{}", chosen, all));
        if (!chosen.empty() || m_options.hosts.size() < 2) return;
        for (const char* inner : {"docker0", "virbr0", "lxcbr0", "cni0"})
            if (all.find(std::string(" ") + inner + " ") != std::string::npos)
                m_warnings.push_back(fmt::format(
                    "{} has the same address on every host, and MPI may choose it: ranks then wait "
                    "for each other for ever; name the right one (--interface)",
                    inner));
    }

    void slots() {
        std::int64_t slots = 0;
        for (const std::string& host : m_options.hosts) {
            const std::size_t colon = host.find(':');
            slots += colon == std::string::npos ? 1 : std::atoll(host.c_str() + colon + 1);
        }
        const std::int64_t world = m_request.plan.layout.world();
        if (slots > 0 && slots < world)
            m_warnings.push_back(fmt::format(
                "{} ranks over hosts with {} slots: some hosts get more ranks than you gave them",
                world, slots));
    }

    const LaunchRequest& m_request;
    const LauncherOptions& m_options;
    bool m_slurm;
    std::multimap<std::string, std::string> m_answers;
    std::vector<std::string> m_warnings;
};

}  // namespace

Result<std::vector<std::string>> checkEnvironment(Connection& connection,
                                                  const LaunchRequest& request,
                                                  const LauncherOptions& options,
                                                  std::string_view launcher) {
    PIPER_ASSIGN(const CommandResult r, runShell(connection, checkScript(request, options)));
    return Checks(request, options, launcher, r.output).run();
}

}  // namespace piper

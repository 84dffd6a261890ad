// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "app/common/sessions.h"
#include "app/piperctl/bench.h"
#include "core/base/json.h"
#include "core/base/sample.h"
#include "sessions/host_facts.h"

namespace piper::app {
namespace {

using Clock = std::chrono::steady_clock;

struct OpenedTimes {
    std::vector<double> connected, discovered;  ///< seconds since the session began to open
    std::string cluster;
};

Status openOnce(const std::string& name, OpenedTimes& times) {
    const Clock::time_point begin = Clock::now();
    const auto passed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
    PIPER_ASSIGN(const std::shared_ptr<Session> session, openSession(name));
    times.connected.push_back(passed());
    PIPER_ASSIGN(const HostFacts facts, discoverHost(session->connection()));
    PIPER_ASSIGN(const ClusterSpec cluster, proposeCluster(facts));
    times.discovered.push_back(passed());
    times.cluster = cluster.name;
    return {};
}

}  // namespace

Outcome benchSession(const BenchOptions& options, bool json) {
    OpenedTimes times;
    for (std::int64_t i = 0; i < options.pairs; ++i) PIPER_TRY(openOnce(options.session, times));
    if (json)
        printJson({{"session", options.session},
                   {"cluster", times.cluster},
                   {"connected_seconds", times.connected},
                   {"discovered_seconds", times.discovered},
                   {"median_discovered_seconds", median(times.discovered)}});
    else
        fmt::print(
            "connected after {:.0f} ms, cluster '{}' discovered after {:.0f} ms (median of {}; "
            "longest {:.0f} ms)\n",
            1e3 * median(times.connected), times.cluster, 1e3 * median(times.discovered),
            options.pairs, 1e3 * quantile(times.discovered, 1.0));
    return 0;
}

}  // namespace piper::app

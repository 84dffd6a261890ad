// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "app/alltoall/bench.h"
#include "app/files/files.h"
#include "core/base/json.h"
#include "core/base/sample.h"
#include "kernels/alltoall/topology.h"
#include "kernels/alltoall/wire_format.h"

namespace piper::app {
namespace {

/// Every combination of the settings.
std::vector<BenchOptions> settingsOf(const BenchOptions& o) {
    std::vector<BenchOptions> out;
    for (const std::int64_t hidden : o.hiddens)
        for (const std::int64_t topk : o.topks)
            for (const std::int64_t limit : o.node_limits)
                for (const double zipf : o.zipfs) {
                    BenchOptions one = o;
                    one.hidden = hidden;
                    one.topk = topk;
                    one.node_limit = limit;
                    one.zipf = zipf;
                    out.push_back(std::move(one));
                }
    return out;
}

std::vector<ExchangePoint> pointsOf(const MoeContest& contest, const BenchOptions& o,
                                    std::int64_t ranks, std::int64_t nodes) {
    std::vector<ExchangePoint> out;
    for (const ContestResult& result : contest.results) {
        if (result.name.ends_with("(again)")) continue;
        ExchangePoint p;
        p.algorithm = result.name;
        p.ranks = ranks;
        p.nodes = nodes;
        p.tokens = o.tokens;
        p.row = bytes(static_cast<double>(wireRowBytes(WireFormat::Fp32, o.hidden)));
        p.topk = o.topk;
        p.node_limit = o.node_limit;
        p.imbalance = contest.imbalance;
        p.time = Seconds(quantile(result.seconds, 0.5));
        out.push_back(std::move(p));
    }
    return out;
}

bool sameMeasurement(const ExchangePoint& a, const ExchangePoint& b) {
    return a.algorithm == b.algorithm && sameSetting(a, b);
}

Status writeTable(const std::string& path, const std::vector<ExchangePoint>& points) {
    PIPER_ASSIGN(ClusterSpec cluster, loadCluster(path));
    std::vector<ExchangePoint>& table = cluster.curves.exchange;
    for (const ExchangePoint& p : points) {
        std::erase_if(table, [&](const ExchangePoint& old) { return sameMeasurement(old, p); });
        table.push_back(p);
    }
    return writeTextFile(path, writeCluster(cluster).dump(1) + "\n");
}

}  // namespace

Result<Json> tuneMoe(Communicator& world, const BenchOptions& o) {
    if (world.rank() == 0) {
        PIPER_ASSIGN(const std::string text, readTextFile(o.cluster));
        PIPER_TRY(readClusterText(text, o.cluster));
    }
    PIPER_TRY(world.barrier());
    const std::int64_t nodes = ExchangeTopology(world.nodes()).numNodes();
    // On one node the others have nothing to stage.
    std::vector<std::string> names = {"vendor", "flat"};
    if (nodes > 1) names.insert(names.end(), {"node", "rail", "node_pair", "node_dedup"});
    std::vector<ExchangePoint> points;
    Json out = {
        {"format_version", 1}, {"bench", "tune"}, {"ranks", world.size()}, {"nodes", nodes}};
    out["settings"] = Json::array();
    for (const BenchOptions& one : settingsOf(o)) {
        PIPER_ASSIGN(const MoeContest contest, holdMoeContest(world, one, names));
        const std::vector<ExchangePoint> measured = pointsOf(contest, one, world.size(), nodes);
        points.insert(points.end(), measured.begin(), measured.end());
        out["settings"].push_back({{"row_bytes", measured.front().row.value},
                                   {"topk", one.topk},
                                   {"node_limit", one.node_limit},
                                   {"zipf", one.zipf},
                                   {"imbalance", contest.imbalance},
                                   {"results", contestJson(contest.results, one.rate())}});
    }
    if (world.rank() == 0) PIPER_TRY(writeTable(o.cluster, points));
    return out;
}

}  // namespace piper::app

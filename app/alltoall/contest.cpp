// SPDX-License-Identifier: Apache-2.0
#include "app/alltoall/contest.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "core/base/sample.h"

namespace piper::app {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kFrame = 1514.0;  ///< bytes of a full Ethernet frame

/// What one rank adds to its node, of all runs of one contestant.
struct Share {
    std::int64_t sent = 0, received = 0, messages = 0, all_messages = 0;
    WireCounters wire;
};

Share shareOf(const TransportCounters& before, const TransportCounters& after) {
    Share out;
    out.sent = after.inter_node_bytes - before.inter_node_bytes;
    out.received = after.inter_node_bytes_received - before.inter_node_bytes_received;
    out.messages = after.inter_node_messages - before.inter_node_messages;
    out.all_messages = after.messages_sent - before.messages_sent;
    return out;
}

Share operator+(Share a, const Share& b) {
    a.sent += b.sent;
    a.received += b.received;
    a.messages += b.messages;
    a.all_messages += b.all_messages;
    a.wire += b.wire;
    return a;
}

void addNodes(const std::vector<std::int64_t>& nodes, std::span<const Share> shares, double rounds,
              ContestResult& result) {
    std::map<std::int64_t, Share> by_node;
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
        const auto known = by_node.find(nodes[rank]);
        // The ranks of a node share its interfaces: the first one speaks for them.
        const WireCounters wire = known == by_node.end() ? shares[rank].wire : known->second.wire;
        Share& sum = by_node[nodes[rank]];
        sum = sum + shares[rank];
        sum.wire = wire;
    }
    const auto per_run = [&](std::int64_t n) {
        return static_cast<std::int64_t>(static_cast<double>(n) / rounds + 0.5);
    };
    for (const auto& [node, sum] : by_node) {
        const NodeTraffic traffic{per_run(sum.sent), per_run(sum.received), per_run(sum.messages)};
        if (std::max(traffic.sent, traffic.received) >=
            std::max(result.busiest.sent, result.busiest.received))
            result.busiest = traffic;
        result.messages += per_run(sum.all_messages);
        result.payload_bytes += static_cast<double>(sum.sent) / rounds;
        result.wire_bytes += static_cast<double>(sum.wire.sent_bytes) / rounds;
        result.sent_again += static_cast<double>(sum.wire.sent_again) / rounds;
    }
}

std::vector<double> ratios(const ContestResult& base, const ContestResult& other) {
    std::vector<double> out;
    for (std::size_t i = 0; i < base.seconds.size(); ++i)
        out.push_back(base.seconds[i] / other.seconds[i]);
    return out;
}

}  // namespace

Result<std::vector<ContestResult>> holdContest(Communicator& world,
                                               std::vector<Contestant> contestants,
                                               std::int64_t rounds) {
    // What the barriers around a run put on the wire is measured alone and taken off.
    contestants.push_back({"nothing", [] { return Status(); }});
    const std::size_t n = contestants.size();
    std::vector<double> seconds(static_cast<std::size_t>(rounds) * n);
    std::vector<Share> own(n);
    for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round)
        for (std::size_t turn = 0; turn < n; ++turn) {
            const std::size_t c = (round + turn) % n;
            // The interfaces are read while nobody sends: between two barriers.
            PIPER_TRY(world.barrier());
            const WireCounters wire = readWire();
            PIPER_TRY(world.barrier());
            const TransportCounters before = world.counters();
            const auto began = Clock::now();
            PIPER_TRY(contestants[c].run());
            seconds[round * n + c] = std::chrono::duration<double>(Clock::now() - began).count();
            const Share share = shareOf(before, world.counters());
            PIPER_TRY(world.barrier());
            own[c] = own[c] + share;
            own[c].wire += readWire() - wire;
        }
    PIPER_TRY(world.allReduceMax(seconds));
    std::vector<Share> all(n * static_cast<std::size_t>(world.size()));
    PIPER_TRY(
        world.allGather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all))));
    std::vector<ContestResult> results;
    for (std::size_t c = 0; c < n; ++c) {
        ContestResult result;
        result.name = contestants[c].name;
        for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round)
            result.seconds.push_back(seconds[round * n + c]);
        std::vector<Share> shares;
        for (std::size_t rank = 0; rank < world.nodes().size(); ++rank)
            shares.push_back(all[rank * n + c]);
        addNodes(world.nodes(), shares, static_cast<double>(rounds), result);
        results.push_back(std::move(result));
    }
    for (ContestResult& result : results) result.wire_bytes -= results.back().wire_bytes;
    results.pop_back();
    return results;
}

Json contestJson(const std::vector<ContestResult>& results, double rate) {
    Json out = Json::array();
    for (const ContestResult& r : results) {
        const std::vector<double> against = ratios(results.front(), r);
        const double bound =
            rate > 0.0 ? static_cast<double>(std::max(r.busiest.sent, r.busiest.received)) / rate
                       : 0.0;
        const double frames = r.wire_bytes - r.sent_again * kFrame;
        Json row = {{"algorithm", r.name},
                    {"pairs", r.seconds.size()},
                    {"median_seconds", median(r.seconds)},
                    {"min_seconds", quantile(r.seconds, 0.0)},
                    {"ratio_median", median(against)},
                    {"ratio_low", quantile(against, 0.25)},
                    {"ratio_high", quantile(against, 0.75)},
                    {"busiest_node_sent_bytes", r.busiest.sent},
                    {"busiest_node_received_bytes", r.busiest.received},
                    {"busiest_node_messages", r.busiest.messages},
                    {"messages", r.messages},
                    {"payload_bytes", r.payload_bytes},
                    {"wire_bytes", r.wire_bytes},
                    {"segments_sent_again", r.sent_again}};
        row["wire_over_payload"] = r.payload_bytes > 0.0 ? Json(frames / r.payload_bytes) : Json();
        row["bound_seconds"] = bound > 0.0 ? Json(bound) : Json();
        row["of_bound"] = bound > 0.0 ? Json(bound / median(r.seconds)) : Json();
        out.push_back(std::move(row));
    }
    return out;
}

void printContest(const std::string& title, const Json& contest) {
    fmt::print("# {}\n{:<20} {:>10} {:>10} {:>7} {:>15} {:>9} {:>8} {:>9} {:>8} {:>7}\n", title,
               "algorithm", "median ms", "min ms", "ratio", "quartiles", "node MB", "node msg",
               "of bound", "wire/pay", "resent");
    const auto number = [](const Json& value, const char* format) {
        return value.is_null() ? std::string("-")
                               : fmt::format(fmt::runtime(format), value.get<double>());
    };
    for (const Json& r : contest)
        fmt::print(
            "{:<20} {:>10.2f} {:>10.2f} {:>7.2f}   {:>5.2f} .. {:>4.2f} {:>9.2f} {:>8} {:>9} "
            "{:>8} {:>7.0f}\n",
            r.at("algorithm").get<std::string>(), 1e3 * r.at("median_seconds").get<double>(),
            1e3 * r.at("min_seconds").get<double>(), r.at("ratio_median").get<double>(),
            r.at("ratio_low").get<double>(), r.at("ratio_high").get<double>(),
            1e-6 * std::max(r.at("busiest_node_sent_bytes").get<double>(),
                            r.at("busiest_node_received_bytes").get<double>()),
            r.at("busiest_node_messages").get<std::int64_t>(), number(r.at("of_bound"), "{:.3f}"),
            number(r.at("wire_over_payload"), "{:.3f}"), r.at("segments_sent_again").get<double>());
}

}  // namespace piper::app

// SPDX-License-Identifier: Apache-2.0
#include "kernels/transport/collective_bench.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

namespace piper {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kMostExchanged = 64 << 20;  ///< bytes a rank sends in an all-to-all
constexpr std::int64_t kLarge = 8 << 20;           ///< bytes; fewer repetitions from there on

/// Largest number of members on one node.
std::int64_t ranksPerNode(const Communicator& group) {
    std::map<std::int64_t, std::int64_t> count;
    std::int64_t most = 1;
    for (const std::int64_t node : group.nodes()) most = std::max(most, ++count[node]);
    return most;
}

/// Median over repetitions of the slowest member's time of one call.
Result<Seconds> timeCall(Communicator& group, int repetitions,
                         const std::function<Status()>& call) {
    std::vector<double> times(static_cast<std::size_t>(repetitions));
    for (double& time : times) {
        PIPER_TRY(group.barrier());
        const auto begin = Clock::now();
        PIPER_TRY(call());
        time = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    PIPER_TRY(group.allReduceMax(times));
    std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
    return Seconds(times[static_cast<std::size_t>(repetitions / 2)]);
}

std::byte patternByte(std::int64_t from, std::int64_t to, std::int64_t i) {
    return static_cast<std::byte>((from * 31 + to * 17 + i) & 0xFF);
}

struct AllToAllBuffers {
    std::vector<std::byte> send, receive;
    std::vector<std::int64_t> counts;
};

AllToAllBuffers allToAllBuffers(const Communicator& group, std::int64_t size) {
    const std::int64_t n = group.size();
    AllToAllBuffers b;
    b.send.resize(static_cast<std::size_t>(n * size));
    b.receive.resize(b.send.size());
    b.counts.assign(static_cast<std::size_t>(n), size);
    for (std::int64_t to = 0; to < n; ++to)
        for (std::int64_t i = 0; i < size; ++i)
            b.send[static_cast<std::size_t>(to * size + i)] = patternByte(group.rank(), to, i);
    return b;
}

Result<CollectivePoint> benchAllToAll(Communicator& group, std::int64_t size, int repetitions) {
    AllToAllBuffers b = allToAllBuffers(group, size);
    const auto call = [&] { return group.allToAllV(b.send, b.counts, b.receive, b.counts); };
    PIPER_TRY(call());
    for (std::int64_t from = 0; from < group.size(); ++from)
        for (std::int64_t i = 0; i < size; ++i)
            if (b.receive[static_cast<std::size_t>(from * size + i)] !=
                patternByte(from, group.rank(), i))
                return fail(ErrorCode::External,
                            "all-to-all of {} B a pair: byte {} from rank {} is wrong", size, i,
                            from);
    CollectivePoint point;
    point.kind = CollectiveKind::AllToAll;
    PIPER_ASSIGN(point.time, timeCall(group, repetitions, call));
    return point;
}

Result<CollectivePoint> benchAllReduce(Communicator& group, std::int64_t size, int repetitions) {
    std::vector<float> values(static_cast<std::size_t>(std::max<std::int64_t>(1, size / 4)));
    std::fill(values.begin(), values.end(), static_cast<float>(group.rank() + 1));
    PIPER_TRY(group.allReduceSum(values));
    const float expected = static_cast<float>(group.size() * (group.size() + 1) / 2);
    for (const float v : values)
        if (v != expected)
            return fail(ErrorCode::External, "all-reduce of {} B: {} instead of {}", size, v,
                        expected);
    std::fill(values.begin(), values.end(), 0.0F);
    CollectivePoint point;
    point.kind = CollectiveKind::AllReduce;
    PIPER_ASSIGN(point.time,
                 timeCall(group, repetitions, [&] { return group.allReduceSum(values); }));
    return point;
}

/// Of the gathered buffer a part from every member.
Result<CollectivePoint> benchAllGather(Communicator& group, std::int64_t size, int repetitions) {
    const std::int64_t part = std::max<std::int64_t>(1, size / group.size());
    std::vector<std::byte> own(static_cast<std::size_t>(part));
    for (std::int64_t i = 0; i < part; ++i)
        own[static_cast<std::size_t>(i)] = patternByte(group.rank(), 0, i);
    std::vector<std::byte> all(own.size() * static_cast<std::size_t>(group.size()));
    const auto call = [&] { return group.allGather(own, all); };
    PIPER_TRY(call());
    for (std::int64_t i = 0; i < std::ssize(all); ++i)
        if (all[static_cast<std::size_t>(i)] != patternByte(i / part, 0, i % part))
            return fail(ErrorCode::External, "all-gather of {} B: byte {} of rank {} is wrong",
                        size, i % part, i / part);
    CollectivePoint point;
    point.kind = CollectiveKind::AllGather;
    PIPER_ASSIGN(point.time, timeCall(group, repetitions, call));
    return point;
}

/// Of the buffer that every member has, a part's sum to each.
Result<CollectivePoint> benchReduceScatter(Communicator& group, std::int64_t size,
                                           int repetitions) {
    const std::int64_t part = std::max<std::int64_t>(1, size / 4 / group.size());
    std::vector<float> values(static_cast<std::size_t>(part * group.size()));
    std::vector<float> sums(static_cast<std::size_t>(part));
    for (std::int64_t i = 0; i < std::ssize(values); ++i)
        values[static_cast<std::size_t>(i)] = static_cast<float>(i % 97 + group.rank());
    const auto call = [&] { return group.reduceScatterSum(values, sums); };
    PIPER_TRY(call());
    const std::int64_t n = group.size();
    for (std::int64_t i = 0; i < part; ++i) {
        const std::int64_t at = group.rank() * part + i;
        const auto expected = static_cast<float>(n * (at % 97) + n * (n - 1) / 2);
        if (sums[static_cast<std::size_t>(i)] != expected)
            return fail(ErrorCode::External, "reduce-scatter of {} B: {} instead of {} at {}", size,
                        sums[static_cast<std::size_t>(i)], expected, at);
    }
    CollectivePoint point;
    point.kind = CollectiveKind::ReduceScatter;
    PIPER_ASSIGN(point.time, timeCall(group, repetitions, call));
    return point;
}

/// Half a round trip between the first and the last member; the others only join the barriers.
Result<CollectivePoint> benchPointToPoint(Communicator& group, std::int64_t size, int repetitions) {
    std::vector<std::byte> out(static_cast<std::size_t>(size)), in(out.size());
    const std::int64_t last = group.size() - 1;
    const auto exchange = [&](std::int64_t peer, bool first) -> Status {
        for (const bool sending : {first, !first}) {
            PIPER_ASSIGN(const auto pending,
                         sending ? group.send(out, peer, 7) : group.receive(in, peer, 7));
            PIPER_TRY(pending->wait());
        }
        return {};
    };
    const auto call = [&]() -> Status {
        if (group.rank() == 0) return exchange(last, true);
        if (group.rank() == last) return exchange(0, false);
        return {};
    };
    for (std::int64_t i = 0; i < size; ++i)
        out[static_cast<std::size_t>(i)] = patternByte(0, last, i);
    PIPER_TRY(call());
    if ((group.rank() == 0 || group.rank() == last) && in != out)
        return fail(ErrorCode::External, "point-to-point of {} B came back changed", size);
    CollectivePoint point;
    point.kind = CollectiveKind::PointToPoint;
    PIPER_ASSIGN(const Seconds round_trip, timeCall(group, repetitions, call));
    point.time = round_trip / 2.0;
    return point;
}

}  // namespace

Result<std::vector<CollectivePoint>> benchCollectives(Communicator& group,
                                                      const CollectiveBenchOptions& options) {
    std::vector<CollectivePoint> points;
    if (group.size() < 2) return points;
    for (const std::int64_t size : options.sizes) {
        const bool exchanged = size * group.size() <= kMostExchanged;
        for (const auto& bench : {benchAllToAll, benchAllReduce, benchAllGather, benchReduceScatter,
                                  benchPointToPoint}) {
            if (bench == benchAllToAll && !exchanged) continue;
            PIPER_ASSIGN(CollectivePoint point,
                         bench(group, size,
                               size > kLarge ? options.repetitions / 3 + 1 : options.repetitions));
            point.ranks = point.kind == CollectiveKind::PointToPoint ? 2 : group.size();
            point.ranks_per_node = std::min(point.ranks, ranksPerNode(group));
            point.message = bytes(static_cast<double>(size));
            points.push_back(std::move(point));
        }
    }
    return points;
}

}  // namespace piper

// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/token_script.h"

#include <algorithm>
#include <cstring>

#include "core/base/cast.h"

namespace piper {
namespace {

template <class Element>
std::span<Element> rowOf(const BasicMatrix<Element>& m, std::int64_t r) {
    return {m.row(r), at(m.cols)};
}

Result<std::byte*> stage(ExchangeScript& script, TaggedAllocator& allocator, std::int64_t bytes) {
    PIPER_ASSIGN(Buffer buffer, allocator.allocate(MemoryTerm::CommunicationBuffer, bytes));
    std::byte* data = buffer.as<std::byte>().data();
    script.staging.push_back(std::move(buffer));
    return data;
}

// --- spread --------------------------------------------------------------------------------------

struct SpreadJob {
    SpreadProblem problem;
    std::int64_t row_bytes;
    std::vector<std::byte*> arrived;  ///< [received] where a message lies

    void pack(const TokenRoute::Hop& hop, std::byte* to) const {
        for (const TokenRoute::Part& part : hop.parts) {
            const TokenRoute::Bundle& bundle = problem.route.bundles[part.bundle];
            for (const std::int32_t r : part.rows) {
                if (bundle.message < 0)
                    encodeRow(problem.wire, rowOf(problem.x, r), to);
                else
                    std::memcpy(to, place(bundle, r), at(row_bytes));
                to += row_bytes;
            }
        }
    }
    void unpack(std::size_t number) const {
        const TokenRoute::Bundle& bundle = problem.route.bundles[number];
        for (const std::int64_t local : bundle.locals) {
            const TokenRoute::Slot& slot = bundle.slots[at(problem.route.locals[at(local)].slot)];
            const std::span<float> to = rowOf(problem.rows, local);
            if (bundle.message < 0)
                std::ranges::copy(rowOf(problem.x, slot.row), to.begin());
            else
                decodeRow(problem.wire, place(bundle, slot.row), to);
            if (problem.hook) problem.hook(local, slot);
        }
    }

private:
    [[nodiscard]] const std::byte* place(const TokenRoute::Bundle& bundle, std::int64_t r) const {
        return arrived[at(bundle.message)] + (bundle.first_row + r) * row_bytes;
    }
};

// --- reduce --------------------------------------------------------------------------------------

struct ReduceJob {
    ReduceProblem problem;
    std::int64_t row_bytes;
    std::vector<std::byte*> returned;  ///< [given] where what came back lies

    [[nodiscard]] std::int64_t bytes(const TokenRoute::Hop& hop) const {
        return hop.rows * row_bytes +
               (problem.scalars ? hop.slots * static_cast<std::int64_t>(sizeof(float)) : 0);
    }
    /// Own rows and what came back of one bundle, added to `sum` [rows, H].
    void addUp(std::size_t number, Matrix sum) const {
        const TokenRoute& route = problem.route;
        const TokenRoute::Bundle& bundle = route.bundles[number];
        for (const std::int64_t local : bundle.locals) {
            const TokenRoute::Slot& slot = bundle.slots[at(route.locals[at(local)].slot)];
            const std::span<const float> from = rowOf(problem.rows, local);
            const std::span<float> to = rowOf(sum, slot.row);
            const float weight = problem.weighted ? slot.weight : 1.0F;
            for (std::size_t i = 0; i < to.size(); ++i) to[i] += weight * from[i];
        }
        eachReturn(number,
                   [&](const TokenRoute::Part& part, const std::byte* rows, const std::byte*) {
                       for (const std::int32_t r : part.rows) {
                           addDecodedRow(problem.wire, rows, rowOf(sum, r));
                           rows += row_bytes;
                       }
                   });
    }
    /// One scalar for each slot of a bundle.
    void collectScalars(std::size_t number, std::span<float> scalars) const {
        const TokenRoute& route = problem.route;
        for (const std::int64_t local : route.bundles[number].locals)
            scalars[at(route.locals[at(local)].slot)] = problem.row_scalars[at(local)];
        eachReturn(number,
                   [&](const TokenRoute::Part& part, const std::byte*, const std::byte* values) {
                       for (const std::int32_t slot : part.slots) {
                           std::memcpy(&scalars[at(slot)], values, sizeof(float));
                           values += sizeof(float);
                       }
                   });
    }
    /// The message back to where a received one came from.
    void pack(const TokenRoute::Hop& hop, std::byte* to) const {
        std::byte* scalars = to + hop.rows * row_bytes;
        std::vector<float> scratch;
        for (const std::size_t b : hop.bundles) {
            const TokenRoute::Bundle& bundle = problem.route.bundles[b];
            const std::int64_t hidden = problem.rows.cols;
            scratch.assign(at(bundle.rows * hidden), 0.0F);
            const Matrix sum(scratch.data(), bundle.rows, hidden);
            addUp(b, sum);
            for (std::int64_t r = 0; r < bundle.rows; ++r, to += row_bytes)
                encodeRow(problem.wire, rowOf(ConstMatrix(sum), r), to);
            if (!problem.scalars) continue;
            std::vector<float> values(bundle.slots.size());
            collectScalars(b, values);
            std::memcpy(scalars, values.data(), values.size() * sizeof(float));
            scalars += values.size() * sizeof(float);
        }
    }
    void finish() const {
        if (problem.store == Store::Overwrite) std::ranges::fill(problem.out.span(), 0.0F);
        addUp(0, problem.out);
        if (problem.scalars) collectScalars(0, problem.slot_scalars);
    }

private:
    template <class Function>
    void eachReturn(std::size_t number, const Function& function) const {
        for (const TokenRoute::Onward& onward : problem.route.bundles[number].onward) {
            const TokenRoute::Hop& hop = problem.route.given[onward.hop];
            const TokenRoute::Part& part = hop.parts[onward.part];
            const std::byte* rows = returned[onward.hop];
            const std::byte* scalars = rows + hop.rows * row_bytes;
            function(part, rows + part.first_row * row_bytes,
                     scalars + part.first_slot * static_cast<std::int64_t>(sizeof(float)));
        }
    }
};

}  // namespace

Result<ExchangeScript> spreadScript(SpreadProblem problem, TaggedAllocator& allocator) {
    const TokenRoute& route = problem.route;
    const std::int64_t row_bytes = wireRowBytes(problem.wire, problem.x.cols);
    auto job = std::make_shared<SpreadJob>(SpreadJob{std::move(problem), row_bytes, {}});
    ExchangeScript script;
    for (const TokenRoute::Hop& hop : route.received) {
        PIPER_ASSIGN(std::byte * data, stage(script, allocator, hop.rows * row_bytes));
        job->arrived.push_back(data);
        script.receives.push_back({{data, at(hop.rows * row_bytes)}, hop.peer, hop.tier});
    }
    for (const TokenRoute::Hop& hop : route.given) {
        PIPER_ASSIGN(std::byte * data, stage(script, allocator, hop.rows * row_bytes));
        ExchangeScript::Step step;
        step.after = hop.after;
        step.work = [job, &hop, data] { job->pack(hop, data); };
        step.data = {data, at(hop.rows * row_bytes)};
        step.to = hop.peer;
        step.phase = hop.tier;
        script.steps.push_back(std::move(step));
    }
    for (std::size_t b = 0; b < route.bundles.size(); ++b) {
        if (route.bundles[b].locals.empty()) continue;
        ExchangeScript::Step step;
        if (route.bundles[b].message >= 0) step.after = {at(route.bundles[b].message)};
        step.work = [job, b] { job->unpack(b); };
        script.steps.push_back(std::move(step));
    }
    return script;
}

Result<ExchangeScript> reduceScript(ReduceProblem problem, TaggedAllocator& allocator) {
    const TokenRoute& route = problem.route;
    const std::int64_t row_bytes = wireRowBytes(problem.wire, problem.out.cols);
    auto job = std::make_shared<ReduceJob>(ReduceJob{std::move(problem), row_bytes, {}});
    ExchangeScript script;
    for (const TokenRoute::Hop& hop : route.given) {
        PIPER_ASSIGN(std::byte * data, stage(script, allocator, job->bytes(hop)));
        job->returned.push_back(data);
        script.receives.push_back({{data, at(job->bytes(hop))}, hop.peer, hop.tier});
    }
    for (const TokenRoute::Hop& hop : route.received) {
        PIPER_ASSIGN(std::byte * data, stage(script, allocator, job->bytes(hop)));
        ExchangeScript::Step step;
        step.after = hop.after;
        step.work = [job, &hop, data] { job->pack(hop, data); };
        step.data = {data, at(job->bytes(hop))};
        step.to = hop.peer;
        step.phase = hop.tier;
        script.steps.push_back(std::move(step));
    }
    ExchangeScript::Step own;
    for (const TokenRoute::Onward& onward : route.bundles.front().onward)
        own.after.push_back(onward.hop);
    own.work = [job] { job->finish(); };
    script.steps.push_back(std::move(own));
    return script;
}

}  // namespace piper

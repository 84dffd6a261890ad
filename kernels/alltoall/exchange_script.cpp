// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/exchange_script.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

namespace piper {
namespace {

/// Returns the bytes copied.
std::int64_t runCopies(const std::vector<ExchangeScript::Copy>& copies) {
    std::int64_t bytes = 0;
    for (const ExchangeScript::Copy& copy : copies) {
        if (copy.bytes > 0) std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
        bytes += copy.bytes;
    }
    return bytes;
}

class RunningExchange final : public PendingTransfer {
public:
    RunningExchange(Communicator& group, ExchangeScript script, int tag, std::int64_t in_flight)
        : m_group(group),
          m_script(std::move(script)),
          m_tag(tag),
          m_in_flight(in_flight),
          m_waiting(m_script.steps.size()),
          m_dependents(m_script.receives.size()) {
        for (std::size_t i = 0; i < m_script.steps.size(); ++i) {
            m_waiting[i] = m_script.steps[i].after.size();
            for (const std::size_t r : m_script.steps[i].after) m_dependents[r].push_back(i);
        }
    }
    ~RunningExchange() override { (void)wait(); }
    RunningExchange(const RunningExchange&) = delete;
    RunningExchange& operator=(const RunningExchange&) = delete;

    Status begin() {
        for (std::size_t i = 0; i < m_script.receives.size(); ++i)
            m_unposted[m_script.receives[i].phase].push_back(i);
        for (auto& [phase, numbers] : m_unposted) {
            // The last is posted first.
            std::ranges::sort(numbers, std::ranges::greater(), [&](std::size_t i) {
                const std::int64_t size = m_group.size();
                return (m_group.rank() - m_script.receives[i].from + size) % size;
            });
            const std::size_t all = numbers.size();
            const std::size_t first =
                m_in_flight > 0 ? std::min(static_cast<std::size_t>(m_in_flight), all) : all;
            for (std::size_t i = 0; i < first; ++i) PIPER_TRY(postNext(phase));
        }
        for (std::size_t i = 0; i < m_script.steps.size(); ++i)
            if (m_waiting[i] == 0) PIPER_TRY(run(m_script.steps[i]));
        return {};
    }
    [[nodiscard]] bool test() override {
        if (m_done) return true;
        progress();
        if (m_status.ok() && (!m_receives.empty() || !m_sends.empty())) return false;
        finish();
        return true;
    }
    Status wait() override {
        std::int64_t idle = 0;  // rounds since a transfer ended
        for (std::int64_t before = m_ended; !test(); before = m_ended) {
            if (before != m_ended) idle = 0;
            note(m_group.pause(idle++, underWay()));
        }
        return m_status;
    }

private:
    struct Incoming {
        std::unique_ptr<PendingTransfer> transfer;
        std::size_t number;
    };

    Status postNext(int phase) {
        std::vector<std::size_t>& left = m_unposted[phase];
        if (left.empty()) return {};
        const std::size_t number = left.back();
        left.pop_back();
        const ExchangeScript::Receive& r = m_script.receives[number];
        PIPER_ASSIGN(auto transfer, m_group.receive(r.data, r.from, m_tag + phase));
        m_receives.push_back({std::move(transfer), number});
        return {};
    }
    /// What to wait for: any message to come; when all are here, one send after the other.
    [[nodiscard]] std::vector<PendingTransfer*> underWay() const {
        std::vector<PendingTransfer*> out;
        for (const Incoming& incoming : m_receives) out.push_back(incoming.transfer.get());
        if (out.empty() && !m_sends.empty()) out.push_back(m_sends.front().get());
        return out;
    }
    Status run(ExchangeScript::Step& step) {
        std::int64_t copied = runCopies(step.copies);
        if (step.work) {
            step.work();
            copied += static_cast<std::int64_t>(step.data.size());  // what it packed
        }
        m_group.copied(copied);
        if (step.to < 0) return {};
        PIPER_ASSIGN(auto transfer, m_group.send(step.data, step.to, m_tag + step.phase));
        m_sends.push_back(std::move(transfer));
        return {};
    }
    void arrived(std::size_t receive) {
        for (const std::size_t step : m_dependents[receive])
            if (--m_waiting[step] == 0 && m_status.ok()) note(run(m_script.steps[step]));
    }
    void progress() {
        for (std::size_t i = 0; i < m_receives.size() && m_status.ok();) {
            if (!m_receives[i].transfer->test()) {
                ++i;
                continue;
            }
            note(m_receives[i].transfer->wait());
            ++m_ended;
            const std::size_t number = m_receives[i].number;
            m_receives[i] = std::move(m_receives.back());
            m_receives.pop_back();
            if (m_status.ok()) note(postNext(m_script.receives[number].phase));
            arrived(number);
        }
        std::erase_if(m_sends, [this](const auto& send) {
            const bool done = send->test();
            if (done) note(send->wait());
            m_ended += done ? 1 : 0;
            return done;
        });
    }
    void note(Status status) {
        if (!status.ok()) m_status = std::move(status);
    }
    void finish() {
        m_done = true;
        if (m_status.ok()) m_script.staging.clear();
    }

    Communicator& m_group;
    ExchangeScript m_script;  ///< before the transfers: they end first
    int m_tag;
    std::int64_t m_in_flight;
    std::map<int, std::vector<std::size_t>> m_unposted;  ///< receives by phase
    std::vector<std::size_t> m_waiting;                  ///< [steps] receives still missing
    std::vector<std::vector<std::size_t>> m_dependents;  ///< [receives] steps
    std::vector<Incoming> m_receives;
    std::vector<std::unique_ptr<PendingTransfer>> m_sends;
    std::int64_t m_ended = 0;  ///< transfers
    bool m_done = false;
    Status m_status;
};

}  // namespace

Result<std::unique_ptr<PendingTransfer>> runScript(Communicator& group, ExchangeScript script,
                                                   int tag, std::int64_t in_flight) {
    auto exchange = std::make_unique<RunningExchange>(group, std::move(script), tag, in_flight);
    PIPER_TRY(exchange->begin());
    return std::unique_ptr<PendingTransfer>(std::move(exchange));
}

}  // namespace piper

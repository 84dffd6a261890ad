// SPDX-License-Identifier: Apache-2.0
#include "kernels/alltoall/staged_exchange.h"

#include <cstring>

namespace piper {
namespace {

void runCopies(const std::vector<ExchangeScript::Copy>& copies) {
    for (const ExchangeScript::Copy& copy : copies)
        if (copy.bytes > 0) std::memcpy(copy.to, copy.from, static_cast<std::size_t>(copy.bytes));
}

using Transfers = std::vector<std::unique_ptr<PendingTransfer>>;

bool allDone(Transfers& transfers) {
    bool done = true;
    for (const std::unique_ptr<PendingTransfer>& t : transfers) done = t->test() && done;
    return done;
}

Status waitAll(Transfers& transfers) {
    for (const std::unique_ptr<PendingTransfer>& t : transfers) PIPER_TRY(t->wait());
    return {};
}

class RunningExchange final : public PendingTransfer {
public:
    RunningExchange(Communicator& group, ExchangeScript script, int tag)
        : m_group(group), m_script(std::move(script)), m_tag(tag) {}
    ~RunningExchange() override { (void)wait(); }
    RunningExchange(const RunningExchange&) = delete;
    RunningExchange& operator=(const RunningExchange&) = delete;

    Status begin() {
        for (const ExchangeScript::Receive& r : m_script.receives) {
            PIPER_ASSIGN(auto transfer, m_group.receive(r.data, r.from, m_tag + r.relayed));
            (r.relay_input ? m_inputs : m_others).push_back(std::move(transfer));
        }
        runCopies(m_script.pack);
        return post(m_script.first);
    }
    [[nodiscard]] bool test() override {
        if (m_state == State::Failed || m_state == State::Done) return true;
        if (m_state == State::First && allDone(m_inputs)) note(relay());
        if (m_state == State::Second && allDone(m_others)) finish();
        return m_state != State::First && m_state != State::Second;
    }
    Status wait() override {
        if (m_state == State::First) note(waitAll(m_inputs));
        if (m_state == State::First) note(relay());
        if (m_state == State::Second) {
            note(waitAll(m_others));
            if (m_state == State::Second) finish();
        }
        return m_status;
    }

private:
    enum class State { First, Second, Done, Failed };

    Status post(const std::vector<ExchangeScript::Send>& sends) {
        for (const ExchangeScript::Send& s : sends) {
            PIPER_ASSIGN(auto transfer, m_group.send(s.data, s.to, m_tag + s.relayed));
            m_others.push_back(std::move(transfer));
        }
        return {};
    }
    Status relay() {
        runCopies(m_script.relay);
        PIPER_TRY(post(m_script.second));
        m_state = State::Second;
        return {};
    }
    void finish() {
        runCopies(m_script.unpack);
        m_script.staging.clear();
        m_state = State::Done;
    }
    void note(Status status) {
        if (status.ok()) return;
        m_state = State::Failed;
        m_status = std::move(status);
    }

    Communicator& m_group;
    ExchangeScript m_script;
    Transfers m_inputs, m_others;
    int m_tag;
    State m_state = State::First;
    Status m_status;
};

}  // namespace

Result<std::unique_ptr<PendingTransfer>> runScript(Communicator& group, ExchangeScript script,
                                                   int tag) {
    auto exchange = std::make_unique<RunningExchange>(group, std::move(script), tag);
    PIPER_TRY(exchange->begin());
    return std::unique_ptr<PendingTransfer>(std::move(exchange));
}

}  // namespace piper

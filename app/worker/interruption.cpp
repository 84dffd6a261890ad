// SPDX-License-Identifier: Apache-2.0
#include "app/worker/interruption.h"

#include <csignal>

#include "app/worker/signals.h"

namespace piper {

std::optional<Error> Interruption::lost() const {
    if (m_liveness == nullptr) return std::nullopt;
    const std::optional<Liveness::Loss> loss = m_liveness->findLoss();
    if (!loss) return std::nullopt;
    if (loss->killed)
        return fail(ErrorCode::External, "rank {} died; its last operation: {}", loss->rank.value,
                    loss->message);
    if (loss->hangs)
        return fail(ErrorCode::External, "rank {} hangs; its last operation: {}", loss->rank.value,
                    loss->message);
    return fail(ErrorCode::External, "rank {} failed: {}", loss->rank.value, loss->message);
}

std::optional<Error> Interruption::operator()() {
    if (m_answer) return m_answer;
    const int signal = caughtSignal();
    const auto now = std::chrono::steady_clock::now();
    if (signal == 0 && now < m_next_look) return std::nullopt;
    m_next_look = now + std::chrono::milliseconds(250);
    if (m_liveness != nullptr) m_liveness->waits();
    // mpirun ends the ranks that are left with SIGTERM: then somebody is lost, not cancelled.
    m_answer = lost();
    if (!m_answer && signal != 0)
        m_answer = fail(ErrorCode::Cancelled, "stopped by {}",
                        signal == SIGINT ? "an interrupt (Ctrl-C)" : "a request to terminate");
    return m_answer;
}

}  // namespace piper

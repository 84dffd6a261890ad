// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <memory>
#include <optional>
#include <vector>

#include "sessions/host_facts.h"
#include "sessions/session.h"
#include "ui/models/executor.h"
#include "ui/models/model_card.h"
#include "ui/models/prompt_board.h"

namespace piper::ui {

/// One session of the store: its connection, what the host says of itself, and what went wrong.
class SessionViewModel : public QObject {
    Q_OBJECT
public:
    enum class State { Closed, Opening, Open, Failed };

    /// Executor and board must outlive it.
    SessionViewModel(Executor& executor, PromptBoard& prompts, SessionConfig config,
                     QObject* parent = nullptr);
    /// Lets go of the connection; what the host still asks is refused.
    ~SessionViewModel() override;

    [[nodiscard]] const SessionConfig& config() const { return m_config; }
    [[nodiscard]] QString name() const;
    /// "This machine", or the name.
    [[nodiscard]] QString title() const;
    /// "user@host, sbatch on partition gpu"
    [[nodiscard]] QString describe() const;
    [[nodiscard]] State state() const { return m_state; }
    /// "connected", "connecting…", with what is being done.
    [[nodiscard]] QString stateText() const;
    [[nodiscard]] bool busy() const { return !m_activity.isEmpty(); }
    /// Why the last thing asked for failed.
    [[nodiscard]] const std::optional<Error>& fault() const { return m_fault; }
    /// What the last test found.
    [[nodiscard]] const QString& note() const { return m_note; }
    [[nodiscard]] const std::vector<CardRow>& facts() const { return m_facts; }
    /// The cluster the host proposes; null before discovery, or when clusterFault() says why not.
    [[nodiscard]] const std::optional<ClusterSpec>& cluster() const { return m_cluster; }
    [[nodiscard]] const QString& clusterFault() const { return m_cluster_fault; }
    /// Null unless open.
    [[nodiscard]] const std::shared_ptr<Session>& session() const { return m_session; }

    /// Everything above as text.
    [[nodiscard]] QString dump() const;

public Q_SLOTS:
    /// Connects, then asks the host what it is.
    void open();
    /// Also while it connects: what the host asks is refused.
    void close();
    /// Does the way work? Connects for it and lets go again, unless it is open.
    void test();
    /// Asks the host again.
    void discover();

Q_SIGNALS:
    void changed();
    void opened();  ///< session() is there

private:
    struct Discovery {
        std::vector<CardRow> facts;
        std::optional<ClusterSpec> cluster;
        QString cluster_fault;
    };
    using Discovered = std::shared_ptr<Result<Discovery>>;
    static Discovered discoverOn(Session& session);
    void begin(const QString& activity);
    void takeOpened(Result<std::shared_ptr<Session>> result);
    void takeDiscovery(const Discovered& found);
    void takeTest(const Result<QString>& note);
    [[nodiscard]] QString topic() const;
    void release();

    Executor& m_executor;
    PromptBoard& m_prompts;
    SessionConfig m_config;
    State m_state = State::Closed;
    QString m_activity;
    std::optional<Error> m_fault;
    QString m_note;
    std::vector<CardRow> m_facts;
    std::optional<ClusterSpec> m_cluster;
    QString m_cluster_fault;
    std::shared_ptr<PromptBoard::Prompter> m_prompter;
    std::shared_ptr<Session> m_session;
};

}  // namespace piper::ui

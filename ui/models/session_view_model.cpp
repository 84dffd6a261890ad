// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/session_view_model.h"

#include <QStringList>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

QString testNote(const SessionTest& test, const std::vector<std::string>& remarks) {
    QString out = QStringLiteral("It works: %1. Our directory there: %2")
                      .arg(text(test.system), text(test.directory));
    for (const std::string& remark : remarks)
        out += QStringLiteral("\nNot followed: ") + text(remark);
    return out;
}

}  // namespace

SessionViewModel::SessionViewModel(Executor& executor, PromptBoard& prompts, SessionConfig config,
                                   QObject* parent)
    : QObject(parent), m_executor(executor), m_prompts(prompts), m_config(std::move(config)) {}

SessionViewModel::~SessionViewModel() {
    release();
}

QString SessionViewModel::name() const {
    return text(m_config.name);
}

QString SessionViewModel::title() const {
    return m_config.isLocal() ? QStringLiteral("This machine") : name();
}

QString SessionViewModel::describe() const {
    const LauncherOptions& launch = m_config.launch;
    QString out = m_config.isLocal() ? QStringLiteral("local processes") : text(m_config.host);
    out += QStringLiteral(" · ranks by ") + text(m_config.launcher);
    if (!launch.hosts.empty()) {
        QStringList hosts;
        for (const std::string& host : launch.hosts) hosts << text(host);
        out += QStringLiteral(" over ") + hosts.join(QStringLiteral(", "));
    }
    if (!launch.partition.empty()) out += QStringLiteral(" · partition ") + text(launch.partition);
    if (!launch.allocation.empty())
        out += QStringLiteral(" · allocation ") + text(launch.allocation);
    return out;
}

QString SessionViewModel::stateText() const {
    if (!m_activity.isEmpty()) return m_activity;
    switch (m_state) {
        case State::Closed:
            return QStringLiteral("not connected");
        case State::Opening:
            return QStringLiteral("connecting…");
        case State::Open:
            return m_config.isLocal() ? QStringLiteral("ready") : QStringLiteral("connected");
        case State::Failed:
            return QStringLiteral("failed");
    }
    return {};
}

QString SessionViewModel::dump() const {
    QString out = QStringLiteral("%1 [%2] %3\n").arg(title(), stateText(), describe());
    if (m_fault) out += QStringLiteral("fault: ") + errorText(*m_fault) + u'\n';
    if (!m_note.isEmpty()) out += QStringLiteral("note: ") + m_note + u'\n';
    for (const CardRow& row : m_facts) out += QStringLiteral("%1: %2\n").arg(row.label, row.value);
    if (m_cluster) out += QStringLiteral("cluster: ") + text(m_cluster->name) + u'\n';
    if (!m_cluster_fault.isEmpty()) out += QStringLiteral("no cluster: ") + m_cluster_fault + u'\n';
    return out;
}

QString SessionViewModel::topic() const {
    return QStringLiteral("session:") + name();
}

void SessionViewModel::begin(const QString& activity) {
    m_activity = activity;
    m_fault.reset();
    m_note.clear();
    Q_EMIT changed();
}

SessionViewModel::Discovered SessionViewModel::discoverOn(Session& session) {
    const Result<HostFacts> facts = discoverHost(session.connection());
    if (!facts.ok()) return std::make_shared<Result<Discovery>>(facts.error());
    Discovery out;
    out.facts = hostCard(*facts);
    Result<ClusterSpec> cluster = proposeCluster(*facts);
    if (cluster.ok())
        out.cluster = std::move(cluster).value();
    else
        out.cluster_fault = errorText(cluster.error());
    return std::make_shared<Result<Discovery>>(std::move(out));
}

void SessionViewModel::open() {
    if (busy() || m_state == State::Open) return;
    m_prompter = m_prompts.prompterFor(name());
    m_state = State::Opening;
    m_executor.submit(topic(), Executor::Lane::Network,
                      [config = m_config, prompter = m_prompter,
                       this](const Executor::Context& context) -> Executor::OnWindow {
                          Result<std::shared_ptr<Session>> opened =
                              Session::open(config, prompter, context.stop);
                          if (!opened.ok()) return [opened, this] { takeOpened(opened); };
                          context.post([opened, this] { takeOpened(opened); });
                          return [found = discoverOn(**opened), this] { takeDiscovery(found); };
                      });
    begin(QStringLiteral("connecting…"));
}

void SessionViewModel::takeOpened(Result<std::shared_ptr<Session>> result) {
    m_activity.clear();
    if (!result.ok()) {
        m_state = State::Failed;
        m_fault = result.error();
        Q_EMIT changed();
        return;
    }
    m_state = State::Open;
    m_session = std::move(result).value();
    m_activity = QStringLiteral("asking the host…");
    Q_EMIT changed();
    Q_EMIT opened();
}

void SessionViewModel::takeDiscovery(const Discovered& found) {
    m_activity.clear();
    if (found->ok()) {
        Discovery& discovery = **found;
        m_facts = std::move(discovery.facts);
        m_cluster = std::move(discovery.cluster);
        m_cluster_fault = std::move(discovery.cluster_fault);
    } else {
        m_fault = found->error();
    }
    Q_EMIT changed();
}

void SessionViewModel::discover() {
    if (m_session == nullptr || busy()) return;
    m_executor.submit(topic(), Executor::Lane::Network,
                      [session = m_session, this](const Executor::Context&) -> Executor::OnWindow {
                          return [found = discoverOn(*session), this] { takeDiscovery(found); };
                      });
    begin(QStringLiteral("asking the host…"));
}

void SessionViewModel::test() {
    if (busy()) return;
    if (m_session == nullptr) m_prompter = m_prompts.prompterFor(name());
    m_executor.submit(topic(), Executor::Lane::Network,
                      [config = m_config, prompter = m_prompter, session = m_session,
                       this](const Executor::Context& context) mutable -> Executor::OnWindow {
                          const auto ask = [&]() -> Result<QString> {
                              if (session == nullptr) {
                                  PIPER_ASSIGN(session,
                                               Session::open(config, prompter, context.stop));
                              }
                              PIPER_ASSIGN(const SessionTest test, session->test());
                              return testNote(test, session->remarks());
                          };
                          const Result<QString> note = ask();
                          session.reset();
                          return [note, this] { takeTest(note); };
                      });
    begin(QStringLiteral("testing…"));
}

void SessionViewModel::takeTest(const Result<QString>& note) {
    m_activity.clear();
    if (note.ok()) {
        m_note = *note;
        if (m_state == State::Failed) m_state = State::Closed;
    } else {
        m_fault = note.error();
        if (m_session == nullptr) m_state = State::Failed;
    }
    Q_EMIT changed();
}

void SessionViewModel::close() {
    release();
    m_state = State::Closed;
    begin({});
}

void SessionViewModel::release() {
    if (m_prompter != nullptr) m_prompter->close();
    m_prompter.reset();
    m_executor.cancel(topic());
    if (m_session == nullptr) return;
    // Saying good-bye to a host may take a moment.
    m_executor.submit(topic(), Executor::Lane::Network,
                      [session = std::move(m_session)](const Executor::Context&) mutable {
                          session.reset();
                          return Executor::OnWindow();
                      });
    m_session.reset();
}

}  // namespace piper::ui

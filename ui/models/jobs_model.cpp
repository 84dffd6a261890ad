// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/jobs_model.h"

#include <QLocale>
#include <array>
#include <cmath>

#include "sessions/job_directory.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

const QString kJobsTopic = QStringLiteral("jobs");

bool isJobNumber(int column) {
    return column == JobsModel::Steps || column == JobsModel::Loss;
}

}  // namespace

JobsModel::JobsModel(Executor& executor, SessionsViewModel& sessions, QObject* parent)
    : QAbstractTableModel(parent), m_executor(executor), m_sessions(sessions) {
    connect(&sessions, &SessionsViewModel::currentChanged, this, [this] {
        take(std::vector<JobSummary>());  // those of another session
        refresh();
    });
    connect(&sessions, &SessionsViewModel::changed, this, [this] {
        if (!m_jobs.empty() && m_sessions.current().session() == nullptr) refresh();
    });
    connect(&sessions, &SessionsViewModel::opened, this, [this](const QString& name) {
        if (name == m_sessions.current().name()) refresh();
    });
}

int JobsModel::going() const {
    int out = 0;
    for (const JobSummary& job : m_jobs) out += isFinal(job.status.state) ? 0 : 1;
    return out;
}

int JobsModel::firstGoing() const {
    for (int row = 0; row < rowCount(); ++row)
        if (isGoing(row)) return row;
    return -1;
}

QString JobsModel::directory(int row) const {
    return text(m_jobs[static_cast<std::size_t>(row)].directory);
}

bool JobsModel::isGoing(int row) const {
    return !isFinal(m_jobs[static_cast<std::size_t>(row)].status.state);
}

QString JobsModel::dump() const {
    QString out = m_status + u'\n';
    for (int row = 0; row < rowCount(); ++row)
        for (int column = 0; column < ColumnCount; ++column)
            out += cell(row, column) + (column + 1 == ColumnCount ? u'\n' : u'\t');
    return out;
}

void JobsModel::setStatus(const QString& status) {
    m_status = status;
    Q_EMIT changed();
}

void JobsModel::refresh() {
    const std::shared_ptr<Session> session = m_sessions.current().session();
    if (session == nullptr) {
        m_executor.cancel(kJobsTopic);
        take(std::vector<JobSummary>());
        setStatus(QStringLiteral("Jobs are listed once the session is connected."));
        return;
    }
    m_executor.submit(kJobsTopic, Executor::Lane::Network,
                      [session, this](const Executor::Context&) -> Executor::OnWindow {
                          const auto list = [&]() -> Result<std::vector<JobSummary>> {
                              PIPER_ASSIGN(const std::string root, session->jobsRoot());
                              return summarizeJobs(session->connection(), root);
                          };
                          return [jobs = list(), this] { take(jobs); };
                      });
}

void JobsModel::take(Result<std::vector<JobSummary>> jobs) {
    beginResetModel();
    m_jobs = jobs.ok() ? std::move(jobs).value() : std::vector<JobSummary>();
    endResetModel();
    if (!jobs.ok())
        setStatus(errorText(jobs.error()));
    else if (m_jobs.empty())
        setStatus(QStringLiteral("No jobs."));
    else
        setStatus(QStringLiteral("%1 jobs, %2 of them go on.").arg(m_jobs.size()).arg(going()));
}

void JobsModel::cancel(int row) {
    const std::shared_ptr<Session> session = m_sessions.current().session();
    if (session == nullptr) return;
    const std::string directory = m_jobs[static_cast<std::size_t>(row)].directory;
    setStatus(QStringLiteral("Ending every rank of %1…").arg(text(jobName(directory))));
    m_executor.submit(QStringLiteral("job.cancel:") + text(directory), Executor::Lane::Network,
                      [session, directory, this](const Executor::Context&) -> Executor::OnWindow {
                          const auto end = [&]() -> Status {
                              PIPER_ASSIGN(PlanRun run,
                                           PlanRun::attach(session->connection(), directory));
                              return run.cancel();
                          };
                          return [status = end(), this] {
                              if (status.ok())
                                  refresh();
                              else
                                  setStatus(errorText(status.error()));
                          };
                      });
}

void JobsModel::fetch(int row, const QString& workspace) {
    const std::shared_ptr<Session> session = m_sessions.current().session();
    if (session == nullptr) return;
    const JobSummary& job = m_jobs[static_cast<std::size_t>(row)];
    // The digest first: the run shows within seconds, its events follow.
    const bool digest = !session->connection().isLocal() && isFinal(job.status.state);
    fetch({session, job.directory, jobName(job.directory), workspace, digest});
}

void JobsModel::fetch(const Fetch& what) {
    const QString name = text(jobName(what.directory));
    setStatus((what.digest ? QStringLiteral("Fetching the digest of %1…")
                           : QStringLiteral("Fetching the events of %1…"))
                  .arg(name));
    m_executor.submit(
        QStringLiteral("job.fetch:") + text(what.directory), Executor::Lane::Network,
        [what, this](const Executor::Context& context) -> Executor::OnWindow {
            const auto collect = [&]() -> Result<StoredRun> {
                PIPER_ASSIGN(PlanRun run,
                             PlanRun::attach(what.session->connection(), what.directory,
                                             what.session->config().name));
                const auto say = [this, post = context.post](const QString& how_far) {
                    post([this, how_far] { setStatus(how_far); });
                };
                const CollectOptions options{progressOf(what.directory, say), context.stop, {}};
                const std::string path = what.workspace.toStdString();
                return what.digest ? run.collectDigest(path, what.run, options)
                                   : run.collect(path, what.run, options);
            };
            return [stored = collect(), what, this] { take(stored, what); };
        });
}

TransferProgress JobsModel::progressOf(const std::string& directory,
                                       std::function<void(const QString&)> say) {
    const QString name = text(jobName(directory));
    return everyPercent([name, say = std::move(say)](std::int64_t percent) {
        say(QStringLiteral("Fetching %1: %2 %").arg(name).arg(percent));
    });
}

void JobsModel::take(const Result<StoredRun>& stored, Fetch what) {
    if (!stored.ok() && what.digest && stored.error().code == ErrorCode::Unsupported) {
        what.digest = false;
        fetch(what);  // a host that makes none sends everything
        return;
    }
    if (!stored.ok()) {
        setStatus(errorText(stored.error()));
        return;
    }
    setStatus(QStringLiteral("Fetched as run ‘%1’.").arg(text(stored->measured)));
    Q_EMIT fetched(what.workspace, text(stored->measured));
    if (stored->digests > 0)
        fetch({what.session, what.directory, stored->measured, what.workspace, false});
}

QString JobsModel::cell(int row, int column) const {
    const JobSummary& job = m_jobs[static_cast<std::size_t>(row)];
    const JobStatus& status = job.status;
    switch (column) {
        case Name:
            return text(jobName(job.directory));
        case State:
            return text(toText(status.state));
        case Steps:
            return QStringLiteral("%1 / %2").arg(status.step).arg(status.steps);
        case Loss:
            return status.step > 0 && std::isfinite(status.loss)
                       ? QLocale().toString(status.loss, 'f', 4)
                       : QStringLiteral("–");
        default:
            return text(status.message).section(u'\n', 0, 0);
    }
}

int JobsModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_jobs.size());
}

int JobsModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

QVariant JobsModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    if (role == Qt::DisplayRole) return cell(index.row(), index.column());
    const JobSummary& job = m_jobs[static_cast<std::size_t>(index.row())];
    if (role == Qt::ToolTipRole) return text(job.directory + '\n' + job.status.message);
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter |
                        (isJobNumber(index.column()) ? Qt::AlignRight : Qt::AlignLeft));
    return {};
}

QVariant JobsModel::headerData(int section, Qt::Orientation orientation, int role) const {
    static constexpr std::array<const char*, ColumnCount> titles = {"Job", "State", "Step", "Loss",
                                                                    "Message"};
    if (orientation != Qt::Horizontal) return {};
    if (role == Qt::DisplayRole)
        return QString::fromLatin1(titles[static_cast<std::size_t>(section)]);
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter | (isJobNumber(section) ? Qt::AlignRight : Qt::AlignLeft));
    return {};
}

}  // namespace piper::ui

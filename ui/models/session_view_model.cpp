// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/session_view_model.h"

#include <QStringList>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

constexpr std::int64_t kFileLimit = 1 << 20;

QString firstLine(const QString& s) {
    return s.section(u'\n', 0, 0).trimmed();
}

QString askCommand(Connection& host, const std::vector<std::string>& argv,
                   const std::stop_token& stop) {
    const Result<CommandResult> result = host.run(argv, stop);
    if (!result.ok()) return QStringLiteral("not available: ") + text(result.error().message);
    if (result->exit_status != 0)
        return QStringLiteral("not available: %1 ended with status %2")
            .arg(text(argv.front()))
            .arg(result->exit_status);
    return text(result->output).trimmed();
}

QString askFile(Connection& host, const std::string& path) {
    const Result<std::string> content = host.readFile(path, kFileLimit);
    return content.ok() ? text(*content) : QString();
}

/// The value of the first "key : value" line.
QString field(const QString& content, QLatin1String key) {
    for (const QString& line : content.split(u'\n'))
        if (line.startsWith(key)) return line.section(u':', 1).trimmed();
    return {};
}

QString cpuText(Connection& host, const std::stop_token& stop) {
    const QString model = field(askFile(host, "/proc/cpuinfo"), QLatin1String("model name"));
    const QString cores = firstLine(askCommand(host, {"nproc"}, stop));
    return QStringLiteral("%1 × %2").arg(cores, model.isEmpty() ? QStringLiteral("CPU") : model);
}

QString memoryText(Connection& host) {
    const QString info = askFile(host, "/proc/meminfo");
    const double total = field(info, QLatin1String("MemTotal")).section(u' ', 0, 0).toDouble();
    const double free = field(info, QLatin1String("MemAvailable")).section(u' ', 0, 0).toDouble();
    if (total <= 0) return QStringLiteral("not available: /proc/meminfo cannot be read");
    return QStringLiteral("%1, %2 available")
        .arg(bytesText(Bytes(total * 1024)), bytesText(Bytes(free * 1024)));
}

QString gpuText(Connection& host, const std::stop_token& stop) {
    const QString said = askCommand(
        host, {"nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"}, stop);
    if (said.startsWith(QLatin1String("not available"))) return QStringLiteral("none found");
    const QStringList gpus = said.split(u'\n', Qt::SkipEmptyParts);
    return gpus.isEmpty() ? QStringLiteral("none found")
                          : QStringLiteral("%1 × %2").arg(gpus.size()).arg(gpus.front());
}

}  // namespace

HostFacts readHostFacts(Connection& host, const std::stop_token& stop) {
    HostFacts out;
    const auto add = [&](const char* label, QString value, const char* definition) {
        out.rows.push_back(
            {QString::fromLatin1(label), std::move(value), QString::fromLatin1(definition)});
    };
    add("Host", firstLine(askCommand(host, {"uname", "-n"}, stop)), "Its own name.");
    add("System", firstLine(askCommand(host, {"uname", "-srm"}, stop)), "Kernel and machine.");
    add("Processors", cpuText(host, stop), "Cores this user may run on.");
    add("Memory", memoryText(host), "Total and available now.");
    add("GPUs", gpuText(host, stop), "As nvidia-smi lists them.");
    add("MPI", firstLine(askCommand(host, {"mpirun", "--version"}, stop)),
        "Starts the ranks of a run.");
    add("Load", askFile(host, "/proc/loadavg").section(u' ', 0, 2),
        "Runnable tasks, mean of 1, 5 and 15 minutes.");
    return out;
}

SessionViewModel::SessionViewModel(Executor& executor, QString name, Opener opener, QObject* parent)
    : QObject(parent), m_executor(executor), m_name(std::move(name)), m_opener(std::move(opener)) {}

void SessionViewModel::open() {
    if (m_state == State::Opening) return;
    m_state = State::Opening;
    m_fault.clear();
    m_executor.submit(QStringLiteral("session:") + m_name, Executor::Lane::Background,
                      [opener = m_opener, current = m_connection,
                       this](const Executor::Context& context) -> Executor::OnWindow {
                          Result<std::shared_ptr<Connection>> opened =
                              current ? Result<std::shared_ptr<Connection>>(current) : opener();
                          HostFacts facts;
                          if (opened.ok()) facts = readHostFacts(**opened, context.stop);
                          return [opened = std::move(opened), facts = std::move(facts), this] {
                              m_state = opened.ok() ? State::Open : State::Failed;
                              if (opened.ok())
                                  m_connection = *opened;
                              else
                                  m_fault = errorText(opened.error());
                              m_facts = facts;
                              Q_EMIT changed();
                          };
                      });
    Q_EMIT changed();
}

}  // namespace piper::ui

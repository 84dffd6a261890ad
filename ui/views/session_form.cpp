// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/session_form.h"

#include <QComboBox>
#include <QDialogButtonBox>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QRegularExpression>
#include <QVBoxLayout>

#include "ui/models/sessions_view_model.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr int kFormWidth = 560;
constexpr int kLinesHeight = 64;

std::string trimmed(const QLineEdit* line) {
    return line->text().trimmed().toStdString();
}

std::vector<std::string> split(const QString& content, const QString& pattern) {
    std::vector<std::string> out;
    for (const QString& part : content.split(QRegularExpression(pattern), Qt::SkipEmptyParts))
        out.push_back(part.toStdString());
    return out;
}

}  // namespace

SessionForm::SessionForm(SessionsViewModel& sessions, QWidget* parent)
    : QDialog(parent), m_sessions(sessions), m_form(new QFormLayout) {
    setObjectName(QStringLiteral("session_form"));
    setWindowTitle(QStringLiteral("Add a session"));
    setModal(true);
    setMinimumWidth(kFormWidth);
    auto* layout = new QVBoxLayout(this);
    layout->setSpacing(kSpacing);
    m_form->setFieldGrowthPolicy(QFormLayout::AllNonFixedFieldsGrow);
    m_name = addLine(*m_form, QStringLiteral("&Name"), "form.name", QStringLiteral("cluster"),
                     QStringLiteral("Letters, digits, '.', '_' and '-'"));
    m_host = addLine(*m_form, QStringLiteral("&Host"), "form.host",
                     QStringLiteral("[user@]host[:port] or a Host of ~/.ssh/config"),
                     QStringLiteral("Options, keys and jump hosts are those of ~/.ssh/config"));
    m_launcher = new QComboBox(this);
    m_launcher->setObjectName(QStringLiteral("form.launcher"));
    m_launcher->addItems(
        {QStringLiteral("mpirun"), QStringLiteral("srun"), QStringLiteral("sbatch")});
    m_form->addRow(QStringLiteral("&Launcher"), m_launcher);
    addSlurm(*m_form);
    m_directory = addLine(*m_form, QStringLiteral("&Directory"), "form.directory",
                          QStringLiteral("~/.local/state/piper-workbench"),
                          QStringLiteral("Ours on the host: worker and jobs are below it"));
    m_worker =
        addLine(*m_form, QStringLiteral("&Worker"), "form.worker", QStringLiteral("sent from here"),
                QStringLiteral("A piper-worker that is on the host already"));
    m_ssh_config = addLine(*m_form, QStringLiteral("SSH &configuration"), "form.ssh_config",
                           QStringLiteral("~/.ssh/config"), QStringLiteral("Another file instead"));
    layout->addLayout(m_form);
    m_fault = makeLabel({}, "plain", this);
    m_fault->setObjectName(QStringLiteral("form.fault"));
    m_fault->setTextFormat(Qt::PlainText);
    m_fault->setWordWrap(true);
    m_fault->hide();
    layout->addWidget(m_fault);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Cancel, this);
    m_add = buttons->addButton(QStringLiteral("&Add"), QDialogButtonBox::AcceptRole);
    m_add->setObjectName(QStringLiteral("form.add"));
    m_add->setDefault(true);
    layout->addWidget(buttons);
    connect(buttons, &QDialogButtonBox::accepted, this, &SessionForm::submit);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    connect(m_launcher, &QComboBox::currentIndexChanged, this, &SessionForm::followLauncher);
    connect(&sessions, &SessionsViewModel::added, this, &QDialog::accept);
    connect(&sessions, &SessionsViewModel::addFailed, this, [this](const QString& message) {
        m_fault->setText(message);
        m_fault->show();
        m_add->setEnabled(true);
    });
    followLauncher();
}

QLineEdit* SessionForm::addLine(QFormLayout& form, const QString& label, const char* name,
                                const QString& placeholder, const QString& tip) {
    auto* line = new QLineEdit(this);
    line->setObjectName(QString::fromLatin1(name));
    line->setPlaceholderText(placeholder);
    line->setToolTip(tip);
    form.addRow(label, line);
    return line;
}

void SessionForm::addSlurm(QFormLayout& form) {
    m_hosts = addLine(form, QStringLiteral("H&osts"), "form.hosts", QStringLiteral("n1:8, n2:8"),
                      QStringLiteral("Where mpirun starts ranks; none: the host alone"));
    m_interface = addLine(form, QStringLiteral("Network &interface"), "form.interface",
                          QStringLiteral("MPI's own choice"),
                          QStringLiteral("Of MPI between the hosts, as 'ip link' names it"));
    m_allocation = addLine(form, QStringLiteral("All&ocation"), "form.allocation",
                           QStringLiteral("id of a Slurm job"),
                           QStringLiteral("Ranks start on the nodes of this allocation"));
    m_account = addLine(form, QStringLiteral("Acco&unt"), "form.account",
                        QStringLiteral("Slurm's own choice"), {});
    m_partition = addLine(form, QStringLiteral("&Partition"), "form.partition",
                          QStringLiteral("Slurm's own choice"), {});
    m_time_limit = addLine(form, QStringLiteral("&Time limit"), "form.time",
                           QStringLiteral("partition's own"), QStringLiteral("HH:MM:SS"));
    m_lines = new QPlainTextEdit(this);
    m_lines->setObjectName(QStringLiteral("form.lines"));
    m_lines->setPlaceholderText(QStringLiteral("#SBATCH --gres=gpu:8\nmodule load openmpi"));
    m_lines->setTabChangesFocus(true);
    m_lines->setFixedHeight(kLinesHeight);
    form.addRow(QStringLiteral("Own lin&es"), m_lines);
}

void SessionForm::followLauncher() {
    const QString launcher = m_launcher->currentText();
    const auto show = [this](QWidget* field, bool on) {
        field->setVisible(on);
        m_form->labelForField(field)->setVisible(on);
    };
    for (QWidget* field : {m_hosts, m_interface}) show(field, launcher == QLatin1String("mpirun"));
    show(m_allocation, launcher == QLatin1String("srun"));
    for (QWidget* field : {m_account, m_partition, m_time_limit})
        show(field, launcher == QLatin1String("sbatch"));
    adjustSize();
}

SessionConfig SessionForm::config() const {
    SessionConfig out;
    out.name = trimmed(m_name);
    out.host = trimmed(m_host);
    out.launcher = m_launcher->currentText().toStdString();
    out.directory = trimmed(m_directory);
    out.worker = trimmed(m_worker);
    out.ssh_config = trimmed(m_ssh_config);
    out.launch.extra_lines = split(m_lines->toPlainText(), QStringLiteral("\n"));
    if (out.launcher == "mpirun") {
        out.launch.hosts = split(m_hosts->text(), QStringLiteral("[,\\s]+"));
        out.launch.network_interface = trimmed(m_interface);
    } else if (out.launcher == "srun") {
        out.launch.allocation = trimmed(m_allocation);
    } else {
        out.launch.account = trimmed(m_account);
        out.launch.partition = trimmed(m_partition);
        out.launch.time_limit = trimmed(m_time_limit);
    }
    return out;
}

void SessionForm::submit() {
    m_add->setEnabled(false);
    m_sessions.add(config());
}

}  // namespace piper::ui
